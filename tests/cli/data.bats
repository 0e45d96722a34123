# data and ckpt: the generated corpus as files, corpora looked into, checkpoints judged.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

@test "data synth: text and labels of the same size, the same bytes each time" {
    mkdir a b
    run "$MOEFW" data synth --out a/text.txt --bytes 50000
    [ "$status" -eq 0 ]
    [[ "$output" == *"50000 bytes, 8 topics, entropy floor 0."* ]]
    "$MOEFW" data synth --out b/text.txt --bytes 50000
    cmp a/text.txt b/text.txt
    cmp a/topics.u8 b/topics.u8
    [ "$(wc -c <a/text.txt)" -eq 50000 ]
    [ "$(wc -c <a/topics.u8)" -eq 50000 ]
    "$MOEFW" data synth --bytes 50000 | cmp - a/text.txt
    "$MOEFW" data synth --bytes 50000 --seed 1 >other
    ! cmp -s other a/text.txt
    [ -z "$(tr -d 'a-z .\n' <a/text.txt)" ]
}

@test "data synth: a wrong knob names itself and its bounds, exits 2, writes nothing" {
    run "$MOEFW" data synth --out x.txt --overlap 1.5
    [ "$status" -eq 2 ]
    [[ "$output" == *"overlap"*"0 to 1"* ]]
    run "$MOEFW" data synth --out x.txt --topics none
    [ "$status" -eq 2 ]
    [[ "$output" == *"topics"*"whole number"* ]]
    run "$MOEFW" data synth --json
    [ "$status" -eq 2 ]
    [ -z "$(ls)" ]
}

@test "data info: size, topics and floors of the generated corpus" {
    run "$MOEFW" data info 'builtin:topics?bytes=40000&topics=3' --json
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *'"tokens":40000,"vocab":256'* ]]
    [[ "$output" == *'"name":"forest"'* ]]
    [[ "$output" != *'"name":"music"'* ]]
    [[ "$output" == *'"floor":0.'* ]]
    run "$MOEFW" data info 'builtin:topics?topic=3'
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean topics?"* ]]
}

@test "data info: a table with classes, and one that is broken" {
    printf 'good film\tpos\r\nbad film\tneg\r\nso so\tpos\r\n' >a.tsv
    run "$MOEFW" data info a.tsv --tokenizer char --split 0.5
    [ "$status" -eq 0 ]
    [[ "$output" == *"3 sentences"* && "$output" == *"class pos"*"2"* ]]
    run "$MOEFW" data info a.tsv --tokenizer char --split 0.5 --json
    [[ "$output" == *'"floor":null'* ]]
    printf 'good film\tpos\nbad film\n' >a.tsv
    run "$MOEFW" data info a.tsv
    [ "$status" -eq 3 ]
    [[ "$output" == *"a.tsv:2: 1 column: expected 2"* ]]
    run "$MOEFW" data info none.txt
    [ "$status" -ne 0 ]
    [[ "$output" == *"none.txt"* ]]
}

@test "tokenize: tokens that merge, made to a size; a list of WordPiece tokens" {
    printf 'ab ab\nab abc\n' >text
    run "$MOEFW" tokenize train bpe text --out bpe.json
    [ "$status" -eq 0 ]
    [[ "$output" == "bpe.json: bpe, 8 ids" ]]
    run "$MOEFW" tokenize encode bpe.json text
    [[ "$output" == "5 5 5 4 7 2" ]]
    run "$MOEFW" tokenize train bpe text --merges 1 --out bpe.json
    [[ "$output" == *" 7 ids" ]]
    run "$MOEFW" tokenize train bpe_bytes text --vocab-size 257 --out bytes.json
    [[ "$output" == *" 257 ids" ]]
    run "$MOEFW" tokenize train wordpiece text --vocab-size 7 --out words.json
    [ "$status" -eq 3 ]
    [[ "$output" == *"expected 8 or more"* ]]
    [ ! -e words.json ]
    printf '[UNK]\na\n##b\n' >vocab.txt
    run "$MOEFW" tokenize encode ./vocab.txt text
    [[ "$output" == "1 2 1 2 1 2 0" ]]
}

@test "tokenize: a vocabulary, ids and the text again; what does not fit is refused" {
    printf 'h\303\251 h\n' >text
    run "$MOEFW" tokenize train char text --out char.json
    [ "$status" -eq 0 ]
    [[ "$output" == "char.json: char, 4 ids" ]]
    run "$MOEFW" tokenize encode char.json text
    [ "$output" = "2 3 1 2 0" ]
    run "$MOEFW" tokenize encode char.json text --json
    [ "$output" = '{"ids":[2,3,1,2,0]}' ]
    printf '2 3 1 2' >ids
    "$MOEFW" tokenize decode char.json ids >back
    cmp text back
    "$MOEFW" tokenize encode byte text >ids
    [ "$(cat ids)" = "104 195 169 32 104 10" ]
    run "$MOEFW" data info text --tokenizer ./char.json --split 1
    [[ "$output" == *"5 tokens, vocabulary of 4 (char)"* ]]
    printf 'x' >other
    run "$MOEFW" tokenize encode char.json other
    [ "$status" -eq 3 ]
    [[ "$output" == *"other: byte 0: character U+0078"* ]]
    printf '2 4' >ids
    run "$MOEFW" tokenize decode char.json ids
    [ "$status" -eq 3 ]
    [[ "$output" == *"byte 2: expected an id from 0 to 3"* ]]
    run "$MOEFW" tokenize train char text
    [ "$status" -eq 2 ]
    run "$MOEFW" tokenize encode char text
    [ "$status" -eq 2 ]
}

# A run with two checkpoints, as small as can be.
small_run() {
    "$MOEFW" -t 1 train --out run --steps 2 --set train.save_every=1 --set train.keep=5 \
        --set model.dim=16 --set model.layers=1 --set model.heads=2 --set model.kv_heads=2 \
        --set model.seq=16 --set expert.hidden=16 --set train.batch=2 \
        --set train.eval_every=0 --set train.eval_context=0 --set train.eval_batches=1 \
        --data 'builtin:topics?bytes=20000' -q
}

@test "ckpt: ls, verify and diff; a damaged byte is found and exits 3" {
    small_run
    run "$MOEFW" ckpt ls run
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "step-2 "*"ok" && "${lines[1]}" == "step-1 "*"ok" ]]
    run "$MOEFW" ckpt verify run --json
    [ "$status" -eq 0 ]
    [[ "$output" == '{"ok":true,"step":2,'*'"errors":[]}' ]]
    run "$MOEFW" ckpt diff run/ckpt/step-2 run
    [ "$status" -eq 0 ]
    [[ "$output" == "identical: "* ]]
    run "$MOEFW" ckpt diff run/ckpt/step-1 run/ckpt/step-2
    [ "$status" -eq 1 ]
    [[ "$output" == *"other values"* ]]
    run "$MOEFW" ckpt verify run --step 7
    [ "$status" -eq 3 ]
    printf 'x' | dd of=run/ckpt/step-2/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
    run "$MOEFW" ckpt verify run
    [ "$status" -eq 3 ]
    [[ "$output" == *"model.safetensors: damaged"* ]]
    run "$MOEFW" ckpt verify run/ckpt/step-1
    [ "$status" -eq 0 ]
}
