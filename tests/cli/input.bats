# Input as people have it: "-" is standard input, content decides what a file is, and files of other
# programs are refused with the way to convert them.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    for i in $(seq 300); do echo "line $i of a short text about numbers"; done >text.txt
    for i in $(seq 60); do printf '{"text": "document %d says its number"}\n' "$i"; done >docs.jsonl
}

small=(-q -t 1 --set model.layers=1 --set model.dim=16 --set model.heads=2 --set model.seq=16
    --set expert.hidden=16 --set moe.experts=4 --set train.batch=2 --set train.eval_batches=1
    --set train.eval_context=0 --steps 4)

@test "- is standard input wherever a file is read" {
    [ "$("$MOEFW" data info - --json <text.txt | sed 's/"path":"-"/"path":"text.txt"/')" = "$("$MOEFW" data info text.txt --json)" ]
    [ "$("$MOEFW" tokenize encode byte - <text.txt)" = "$("$MOEFW" tokenize encode byte text.txt)" ]
    [ "$("$MOEFW" tokenize encode byte text.txt | "$MOEFW" tokenize decode byte -)" = "$(cat text.txt; echo)" ]
    "$MOEFW" tokenize train char - -o chars.json <text.txt
    # pipes too: training, evaluation, prompts, configurations
    cat text.txt | "$MOEFW" train "${small[@]}" --data - --out piped
    "$MOEFW" train "${small[@]}" --data text.txt --out named
    cmp piped/ckpt/step-4/model.safetensors named/ckpt/step-4/model.safetensors
    [ "$(cat text.txt | "$MOEFW" eval -q piped --data - | sed '1s/ of -)/ of text.txt)/')" = "$("$MOEFW" eval -q named --data text.txt)" ]
    [ "$(printf line | "$MOEFW" generate -q named -f - -n 5)" = "$("$MOEFW" generate -q named -p line -n 5)" ]
    printf '[include]\npreset = default\n[model]\ndim = 64\n' >my.ini
    [ "$("$MOEFW" config show - <my.ini | sed 1d)" = "$("$MOEFW" config show my.ini | sed 1d)" ]
    "$MOEFW" config check - <my.ini
    printf '[model]\ndimm = 64\n' >my.ini
    run "$MOEFW" config check - <my.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: -:2: unknown key 'dimm' in [model]"* ]]
    run "$MOEFW" train --data - </dev/null
    [ "$status" -eq 3 ]
    [[ "$output" == *"-: the file is empty"* ]]
}

@test "JSON lines are read as such, whatever the name" {
    wanted=$("$MOEFW" data info docs.jsonl --json | sed 's/"path":"[^"]*",//')
    [[ "$wanted" == *'"documents":60'* ]]
    for name in docs.txt docs docs.json; do
        cp docs.jsonl $name
        [ "$("$MOEFW" data info $name --json | sed 's/"path":"[^"]*",//')" = "$wanted" ] || { echo $name; return 1; }
    done
    [ "$("$MOEFW" data info - --json <docs.jsonl | sed 's/"path":"[^"]*",//')" = "$wanted" ]
    # told once; and text if that is asked for
    "$MOEFW" train "${small[@]:1}" --data docs.txt --out run 2>log
    grep -qx "docs.txt holds JSON lines (data.format = text reads it as text)" log
    [[ "$("$MOEFW" data info docs.txt --format text --json)" == *'"documents":0'* ]]
    # text with braces stays text
    printf '{ this is\n no JSON }\n' >braces.txt
    [[ "$("$MOEFW" data info braces.txt --json)" == *'"documents":0'* ]]
}

@test "Parquet and compressed files are refused with the way to convert them" {
    printf 'PAR1 and so on PAR1' >a.parquet
    cp a.parquet data.txt
    for name in a.parquet data.txt; do
        run "$MOEFW" train --data $name
        [ "$status" -eq 3 ]
        [[ "$output" == *"$name: a Parquet file; expected text, "*"pandas.read_parquet('$name').to_json("*" converts it" ]]
        [ ! -e runs ]
    done
    gzip -k text.txt
    run "$MOEFW" data info text.txt.gz
    [ "$status" -eq 3 ]
    [[ "$output" == *"text.txt.gz: a file compressed by gzip; "*"'gunzip -c text.txt.gz | moefw ... --data -' reads it" ]]
    # the way that is told works
    gunzip -c text.txt.gz | "$MOEFW" train "${small[@]}" --data - --out run
    run "$MOEFW" eval run --data a.parquet
    [ "$status" -eq 3 ]
}
