# The files that an import's weights are in, and imports that were killed.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_NUM_THREADS=1
    cp -r "$srcdir/tests/golden/pretrained/gpt2/hf" hf
}

@test "ckpt verify and eval --verify read every byte of the files of an import" {
    "$MOEFW" import hf -o run -q
    "$MOEFW" ckpt verify run | grep -q ': ok: step 0'
    bytes=$("$MOEFW" ckpt verify run --json | sed -E 's/.*"bytes":([0-9]+).*/\1/')
    [ "$bytes" -gt "$(wc -c <hf/model.safetensors)" ]
    printf 'ab\n' >lines.txt
    "$MOEFW" eval run --verify --lines lines.txt --save a.st
    # a changed byte, with the size and the time of before
    touch -r hf/model.safetensors stamp
    printf '\125' | dd of=hf/model.safetensors bs=1 seek=$(($(wc -c <hf/model.safetensors) - 9)) conv=notrunc status=none
    touch -r stamp hf/model.safetensors
    for command in "ckpt verify run" "ckpt verify run/ckpt/step-0" "eval run --verify --lines lines.txt --save b.st"; do
        # shellcheck disable=SC2086 # words
        run "$MOEFW" $command
        [ "$status" -eq 3 ] || { echo "$command: $status $output"; false; }
        [[ "$output" == *"model.safetensors, which holds weights of this run, has changed: expected XXH3-128"* ]] ||
            { echo "$command: $output"; false; }
    done
    run "$MOEFW" ckpt verify run --json
    [ "$status" -eq 3 ]
    [[ "$output" == *'"ok":false'*"has changed"* ]]
}

@test "ckpt verify and eval --verify read the tokenizer, the list of weights and config.ini" {
    printf 'ab\n' >lines.txt
    head -c 3000 "$srcdir/README.md" >text.txt
    printf '%s\n' '[model]' dim=16 layers=1 heads=2 seq=16 '[moe]' experts=2 '[data]' path=text.txt tokenizer=char '[train]' batch=2 steps=2 eval_every=0 >tiny.ini
    "$MOEFW" train tiny.ini -q --out trained
    cp -r "$srcdir/tests/golden/pretrained/mixtral/hf" hf2
    "$MOEFW" import hf2 -o imported -q
    [ -e imported/stored.json ]
    bad() { # FILE EXPRESSION MESSAGE: both verbs refuse the run
        cp "$1" kept
        sed -i -E "$2" "$1"
        if cmp -s "$1" kept; then echo "$2: nothing to change"; false; fi
        for command in "ckpt verify ${1%%/*}" "eval ${1%%/*} --verify --lines lines.txt --save new.st"; do
            # shellcheck disable=SC2086 # words
            run "$MOEFW" $command
            [ "$status" -eq 3 ] || { echo "$command: $status $output"; false; }
            [[ "$output" == *"$1: has changed: $3"* ]] || { echo "$command: $output"; false; }
        done
        cp kept "$1"
    }
    for run in trained imported; do
        "$MOEFW" ckpt verify $run | grep -q ': ok: step'
        bad $run/config.ini 's/^heads = .*/heads = 1/' "model.heads: expected"
        bad $run/config.ini '/^norm_eps/d' "model.norm_eps: expected"
    done
    bad imported/stored.json 's/"version":1/"version": 1/' "expected XXH3-128"
    for run in trained imported; do bad $run/tokenizer.json '1s/\{/{ /' "expected XXH3-128"; done
    # what a person may change is no fault, and neither is what moefw wrote when it was resumed
    sed -i -E 's/^steps = .*/steps = 4/' trained/config.ini
    "$MOEFW" ckpt verify trained | grep -q ': ok: step 2'
    "$MOEFW" train --resume trained -q --set train.lr=1e-3
    "$MOEFW" ckpt verify trained | grep -q ': ok: step 4'
}

@test "an import that was killed is repeated by the same command" {
    "$MOEFW" import hf -o run -q
    cp run/ckpt/step-0/model.safetensors whole.st
    # what a killed one leaves: the first config.ini, and some of the files
    "$MOEFW" import hf -o again -q
    rm again/manifest.json again/ckpt/latest
    echo '; import: every key resolved.' >again/config.ini
    run "$MOEFW" import hf -o again
    [ "$status" -eq 0 ]
    [[ "$output" == *"again: removed: left of an import that did not end"* ]]
    cmp whole.st again/ckpt/step-0/model.safetensors
    # one with a file of somebody is kept
    echo '; import: every key resolved.' >again/config.ini
    echo mine >again/notes.txt
    run "$MOEFW" import hf -o again
    [ "$status" -eq 2 ]
    [ -e again/notes.txt ]
}
