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
