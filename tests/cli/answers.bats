# Answers of verbs that no other file looks at: JSON of ckpt, tokenize, data and graph, and what is
# refused or said when a file, an option or a number is not what the verb needs.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" OMP_WAIT_POLICY=passive
    small a
    small b --seed 2
    small wide --set model.dim=48
    small more --set model.norm=layernorm
    small hash --set router.plugin=hash
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
}

small() { # DIRECTORY OPTION...
    dir=$1
    shift
    "$MOEFW" train -q -t 1 --out "$dir" --set data.path='builtin:topics?bytes=20000' --set model.layers=1 \
        --set model.dim=32 --set model.heads=2 --set model.seq=32 --set expert.hidden=16 --set train.batch=2 \
        --set train.eval_context=0 --set train.eval_batches=1 --set train.final_batches=1 \
        --set train.save_every=1 --set report.enabled=no --steps 2 "$@" >/dev/null
}

# says STATUS TEXT COMMAND...: the command ends with this status, and its output has the text
says() {
    wanted=$1 text=$2
    shift 2
    run "$@"
    [ "$status" -eq "$wanted" ] || { echo "$status: $output"; return 1; }
    [[ "$output" == *"$text"* ]] || { echo "$output"; return 1; }
}

@test "ckpt ls: each checkpoint with step, tensors and bytes; a damaged one with its fault" {
    run "$MOEFW" ckpt ls a --json
    [ "$status" -eq 0 ]
    [ "$(grep -o '"step":[0-9]*,"ok":true,"tensors":[1-9][0-9]*,"bytes":[1-9][0-9]*' <<<"$output" | cut -d, -f1 | tr '\n' ' ')" = \
        '"step":2 "step":1 ' ]
    cp -r a bad
    printf 'x' | dd of=bad/ckpt/step-1/model.safetensors bs=1 seek=3000 conv=notrunc status=none
    says 0 '"step":1,"ok":false' "$MOEFW" ckpt ls bad --json
    run "$MOEFW" ckpt ls bad
    [[ "${lines[0]}" == *2*ok ]]
    [[ "${lines[1]}" == *1*step-1* ]]
    [[ "${lines[1]}" != *ok ]]
    run --separate-stderr "$MOEFW" ckpt verify bad --step 1 --json
    [ "$status" -eq 3 ]
    [[ "$output" == *'"ok":false'*'"errors":["'*'step-1'* ]]
    rm -r bad/ckpt/step-1 bad/ckpt/step-2 bad/ckpt/latest
    says 0 'no checkpoints' "$MOEFW" ckpt ls bad
    [ "$("$MOEFW" ckpt ls bad --json)" = '{"checkpoints":[]}' ]
    says 3 'bad: there is no checkpoint' "$MOEFW" ckpt verify bad
    for what in bad nosuch; do
        run --separate-stderr "$MOEFW" ckpt verify $what --json
        [ "$status" -eq 3 ]
        [[ "$output" == '{"ok":false,"step":null,"tensors":0,"bytes":0,"errors":["'$what*'"]}' ]]
    done
    says 3 'there is no checkpoint; expected one that verifies' "$MOEFW" eval bad
    says 3 'a: no checkpoint of step 7' "$MOEFW" ckpt verify a --step 7
}

@test "ckpt diff: values, shapes and tensors that only one has, as JSON too" {
    run "$MOEFW" ckpt diff a a --json
    [ "$status" -eq 0 ]
    [[ "$output" != *'"how":'* ]]
    run "$MOEFW" ckpt diff a b --json
    [ "$status" -eq 1 ]
    [[ "$output" == *'"name":"'*'"how":"'*'"elements":'[1-9]*'"max_abs":'* ]]
    says 1 'other type or shape' "$MOEFW" ckpt diff a wide
    run "$MOEFW" ckpt diff a more
    [ "$status" -eq 1 ]
    [[ "$output" == *'only in the second'* ]]
    run "$MOEFW" ckpt diff more a --json
    [ "$status" -eq 1 ]
    [[ "$output" == *'"how":"only in the first"'* ]]
    # whole numbers: how many differ, without a distance
    for values in 'abcdefgh' 'abXYefZh'; do
        mkdir -p "$values/ckpt/step-1"
        printf '\100\0\0\0\0\0\0\0%-64s%s' '{"n":{"dtype":"I16","shape":[4],"data_offsets":[0,8]}}' $values \
            >"$values/ckpt/step-1/model.safetensors"
    done
    says 1 $'n: other values: 2 elements\n' "$MOEFW" ckpt diff abcdefgh/ckpt/step-1 abXYefZh/ckpt/step-1
    run --separate-stderr "$MOEFW" ckpt diff abcdefgh/ckpt/step-1 abXYefZh/ckpt/step-1 --json
    [ "$output" = '{"differences":[{"name":"n","how":"other values","elements":2,"max_abs":null}],"tensors":1,"identical":false}' ]
    # a value that is no number differs by more than any other
    cp -r a nan
    printf '\377\377\377\177' | dd of=nan/ckpt/step-2/model.safetensors bs=1 status=none conv=notrunc \
        seek="$(($(stat -c %s nan/ckpt/step-2/model.safetensors) - 4))"
    run "$MOEFW" ckpt diff a nan
    [ "$status" -ne 0 ]
    [[ "$output" == *inf* ]] || [[ "$output" == *'step-2'* ]]
}

@test "tokenize: JSON of training and encoding, clean texts, ends of lines, ids that are none" {
    printf "It's a cat; it isn't a dog!\n\nThe cat sat.\n" >text
    run "$MOEFW" tokenize train char text -o char.json --eos --clean --json
    [ "$status" -eq 0 ]
    [ "$output" = "{\"kind\":\"char\",\"vocab\":$(grep -o '"vocab":[0-9]*' <<<"$output" | cut -d: -f2),\"file\":\"char.json\"}" ]
    # clean: contractions are written out, so there is no apostrophe to know
    says 3 '' "$MOEFW" tokenize encode char.json text
    run "$MOEFW" tokenize encode char.json text --clean --eos
    [ "$status" -eq 0 ]
    ids=$output
    [[ "$("$MOEFW" tokenize decode char.json - <<<"$ids")" == *'it is not a dog'* ]]
    run "$MOEFW" tokenize encode char.json text --clean --eos --bin ids.bin --json
    [ "$status" -eq 0 ]
    [ "$output" = "{\"file\":\"ids.bin\",\"tokens\":$(wc -w <<<"$ids")}" ]
    [ "$(stat -c %s ids.bin)" -eq $((2 * $(wc -w <<<"$ids"))) ]
    "$MOEFW" tokenize encode char.json text --clean --eos --bin wide.bin --bits 32 -q
    [ "$(stat -c %s wide.bin)" -eq $((4 * $(wc -w <<<"$ids"))) ]
    "$MOEFW" tokenize train char text -o plain.json -q
    says 2 'has no <eos>' "$MOEFW" tokenize encode plain.json text --eos
    for bad in 99999999999 7x -1 cat 1000; do
        echo "1 $bad" >ids
        says 3 'ids: byte 2: expected an id from 0 to ' "$MOEFW" tokenize decode plain.json ids
    done
    printf '1 2\0 3' >ids
    says 3 'NUL' "$MOEFW" tokenize decode plain.json ids
}

@test "graph: nodes in DOT, of a training step more, and lengths that the model lacks" {
    run "$MOEFW" graph a
    [ "$status" -eq 0 ]
    [[ "$output" == 'digraph'* ]]
    forward=$(grep -c -- '->' <<<"$output")
    run "$MOEFW" graph a --training --batch 2 --seq 16
    [ "$status" -eq 0 ]
    [ "$(grep -c -- '->' <<<"$output")" -gt $((forward * 3 / 2)) ]
    says 2 "--seq: expected at most the model's 32, found 33" "$MOEFW" graph a --seq 33
    says 3 '--training needs the data of the configuration' "$MOEFW" graph a --training --set data.path=missing.txt
}

@test "trace: choices that differ are listed up to a number; a replay needs a folder for its file" {
    "$MOEFW" trace record hash -o h.trace -q --batches 1
    "$MOEFW" trace record a -o a.trace -q --batches 1
    "$MOEFW" trace record b -o b.trace -q --batches 1
    says 0 'same: every token chooses the same experts in every layer' "$MOEFW" trace diff h.trace h.trace
    says 3 'missing.trace: there is no such file' "$MOEFW" trace diff h.trace missing.trace
    run "$MOEFW" trace diff a.trace b.trace --list 1
    [ "$status" -eq 1 ]
    [ "$(grep -c 'a real difference' <<<"$output")" -eq 1 ]
    [[ "$output" == *'more'* ]]
    says 0 'same apart from ties' "$MOEFW" trace diff a.trace b.trace --tolerance 10 --list 1
    # a router that tells no probabilities: how far apart two choices are is unknown
    mkdir -p silent && sed 's/^ *out->prob = .*;/;/' "$srcdir/plugins/routers/hash.c" >silent/silent.c
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
        -o silent/silent.so silent/silent.c -lm
    for seed in 1 2; do
        small silent/$seed --plugin silent/silent.so --set router.seed=$seed --seed 1
        "$MOEFW" trace record silent/$seed --plugin silent/silent.so -o silent/$seed.trace -q --batches 1
    done
    run "$MOEFW" trace diff silent/1.trace silent/2.trace --list 1
    [ "$status" -eq 1 ]
    grep -q '^layer 0: 64 tokens, [1-9][0-9]* choose otherwise .*; no probabilities$' <<<"$output"
    grep -qE ': A chooses [0-7], B [0-7]; gap unknown: a real difference$' <<<"$output"
    run env TMPDIR=/nowhere "$MOEFW" trace replay a.trace a
    [ "$status" -eq 1 ]
    [[ "$output" == *'/nowhere/moefw-trace-'*': cannot make a file for the trace: '* ]]
}

@test "train: --resume with no run, with two, and a run where a configuration belongs" {
    says 2 '--resume needs a run to continue' "$MOEFW" train --resume
    says 2 'both a and --out b name the run to continue' "$MOEFW" train a --resume --out b
    says 2 'a is a run; to continue it: moefw train a --resume; to repeat it: moefw train a/config.ini' "$MOEFW" train a
    cp -r a again
    run "$MOEFW" train default --resume --out again -v --set train.steps=3
    [[ "$output" == *'again continues with its own configuration; default is not read'* ]]
}

@test "config check: without the data memory is not known; notes about old keys in JSON" {
    printf '[include]\npreset = default\n[data]\npath = nothing.txt\nformat = tsv\n[model]\ntask = classify\n' >c.ini
    says 2 'model.classes = auto needs data to count classes' "$MOEFW" config check c.ini
    says 0 'memory to train: not known without the data' "$MOEFW" config check default --set data.path=nothing.txt
    printf '[include]\npreset = default\n[model]\nskip = unet\n' >old.ini
    run --separate-stderr "$MOEFW" config check old.ini --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"notes":["'*'unet_skip'* ]]
}

@test "plugin info and check as JSON; a plugin without options" {
    run "$MOEFW" plugin info linear --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"name":"temperature"'*'"type":"real"'* ]]
    says 0 '"name":"target","type":"string","default":null' "$MOEFW" plugin info schedule --json # it must be given
    says 0 'no options' "$MOEFW" plugin info z_loss
    run --separate-stderr "$MOEFW" plugin check relu --json --set moe.top_k=1
    [ "$status" -eq 0 ]
    [[ "$output" == '{"plugin":"relu","kind":"router","abi":1,"pass":true,"checks":['*'"skipped":'*'"detail":"'* ]]
}

@test "bench: several routers by turns, and too many of them; a comparison's own words" {
    says 2 '--turns: expected one router, found 2' "$MOEFW" bench routers --routers linear,hash --turns
    says 2 'routers: expected at most 128, found 129' "$MOEFW" bench routers --routers "$(printf 'r%d,' $(seq 129))"
    says 2 'usage: ' "$MOEFW" --compared-run
    says 1 'the comparison has ended' "$MOEFW" --compared-run 1 train
}

@test "runs: two orders at once, too many columns, and a folder that is none" {
    says 2 '--sort and --rank both order the runs' "$MOEFW" runs a b --sort loss --rank val_loss
    says 2 '--show: expected at most' "$MOEFW" runs a b --show "$(seq -s , 100 200)"
    run "$MOEFW" runs a b --sort step --reverse
    [ "$status" -eq 0 ]
    mkdir -p runs && cp -r a runs/one
    run "$MOEFW" runs
    [[ "$output" == *'runs/one'* ]]
}

@test "export, import, report: what excludes each other, and more runs than there may be" {
    says 2 '64 runs at most, not 65' "$MOEFW" export csv $(printf 'a %.0s' $(seq 65)) -o out.csv
    [ ! -e out.csv ]
    says 2 'runs at most' "$MOEFW" report $(printf 'a %.0s' $(seq 100)) -o out.html
    [ ! -e out.html ]
    says 2 '--onto and --upcycle exclude each other' "$MOEFW" import folder -o new --onto a --upcycle 4
    [ ! -e new ]
    says 2 '--begin: expected ids as 1,15,2, found ' "$MOEFW" generate a --ids out.bin --begin 1,x
    says 2 '' "$MOEFW" generate a --ids out.bin --begin 99999999999
    [ ! -e out.bin ]
}

@test "a file that cannot be created is named as it was asked for" {
    run "$MOEFW" report a -q -o missing/x.html
    [ "$status" -ne 0 ]
    [ "$output" = "moefw: missing/x.html: cannot create: No such file or directory" ]
}
