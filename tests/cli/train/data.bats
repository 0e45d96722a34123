# data and ckpt: the generated corpus as files, statistics of corpora, checks of checkpoints.

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
    ! cmp -s other a/text.txt || false
    [[ "$("$MOEFW" data synth --out b/new.txt --labels b/new.u8 --bytes 50000 --json)" == \
        '{"text":"b/new.txt","labels":"b/new.u8","bytes":50000,"topics":8,"floor":0.'*'}' ]]
    cmp b/new.txt a/text.txt
    cmp b/new.u8 a/topics.u8
    [ -z "$(tr -d 'a-z .\n' <a/text.txt)" ]
}

@test "data synth: a wrong option names itself and its bounds, exits 2, writes nothing" {
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
    # as text: the same floors, rounded
    floors=$(sed -E 's/.*"floor":([.0-9]+),"floor_topic":([.0-9]+),"floor_window":([.0-9]+),"window":128.*/\1 \2 \3/' <<<"$output")
    run "$MOEFW" data info 'builtin:topics?bytes=40000&topics=3'
    # shellcheck disable=SC2086 # three numbers
    [[ "$output" == *"$(printf 'entropy floor of the val split, nats per byte:\n  %.4f with all of the past
  %.4f with the topics known as well\n  %.4f in windows of 128 without context before them' $floors)" ]]
    run "$MOEFW" data info 'builtin:topics?topic=3'
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean topics?"* ]]
}

@test "data info: a table with classes, and a damaged one" {
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

@test "tokenize: merges trained to a size; a list of WordPiece tokens" {
    printf 'ab ab\nab abc\n' >text
    run "$MOEFW" tokenize train bpe text --out bpe.json
    [ "$status" -eq 0 ]
    [[ "$output" == "bpe.json: bpe, 8 ids" ]]
    run "$MOEFW" tokenize encode bpe.json text
    [[ "$output" == "5 5 5 4 7 2" ]]
    run "$MOEFW" tokenize train bpe text --merges 1 --out bpe.json --force
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

# lamoe: a vocabulary of 14 merges in the format of LaMoE's trainer
lamoe() {
    cat <<'JSON'
{"vocab_dict": {"<pad>": 0, "</w>": 1, "<eos>": 2, "<unk>": 3, "e</w>": 4, "er</w>": 5, "h": 6, "low</w>": 7,
 "lower</w>": 8, "lowest": 9, "new": 10, "ow": 11, "t": 12, "wid": 13},
 "merges": {"o:w": "ow", "l:ow": "low", "e:r": "er", "er:</w>": "er</w>", "low:</w>": "low</w>", "n:e": "ne",
 "ne:w": "new", "w:i": "wi", "wi:d": "wid", "e:</w>": "e</w>", "low:er</w>": "lower</w>", "low:e": "lowe",
 "lowe:s": "lowes", "lowes:t": "lowest"}, "max_iter": 14}
JSON
}

@test "tokenize: LaMoE's JSON has the ids that LaMoE gives" {
    lamoe >lamoe.json
    echo "lower wider newest tower low zebra" >text
    # the ids of the published encoder for this text and vocabulary
    run "$MOEFW" tokenize encode ./lamoe.json text --eos
    [ "$output" = "8 13 5 10 3 3 12 1 12 11 5 7 3 3 3 3 3 1 2" ] || { echo "$output"; false; }
    printf '8 13 5 10 12 1 7 2' >ids
    run "$MOEFW" tokenize decode ./lamoe.json ids
    [ "$output" = "lower wider newt low " ]
    # and a run trained with it keeps them
    yes "low lower lowest the new wider" | head -n 60 >train.txt
    "$MOEFW" train -q -t 1 --steps 1 --out run --data train.txt --set data.tokenizer=./lamoe.json \
        --set model.layers=1 --set model.dim=8 --set model.heads=2 --set model.seq=8 --set train.batch=2 \
        --set train.eval_context=0
    run "$MOEFW" tokenize encode run/tokenizer.json text --eos
    [ "$output" = "8 13 5 10 3 3 12 1 12 11 5 7 3 3 3 3 3 1 2" ] || { echo "$output"; false; }
}

@test "tokenize: LaMoE's merges of colons are split if both parts are known" {
    # "a::b" is a: and b, because no merge gives :b; ":::" is : and :
    echo '{"vocab_dict": {"<pad>": 0, "::": 1, ":x</w>": 2, "</w>": 3, "<unk>": 4, "a:b</w>": 5},
        "merges": {"a::": "a:", "a::b": "a:b", "a:b:</w>": "a:b</w>", "::x": ":x", ":x:</w>": ":x</w>", ":::": "::"}}' >colons.json
    echo "a:b :x ::" >text
    run "$MOEFW" tokenize encode ./colons.json text
    [ "$output" = "5 2 1 3" ] || { echo "$output"; false; }
    # here a: and b, or a and :b, are possible: the vocabulary has the second pair
    echo '{"vocab_dict": {"<unk>": 0, "a": 1, ":b": 2, "a:b": 3, "</w>": 4},
        "merges": {"a::": "a:", "::b": ":b", "a::b": "a:b"}}' >both.json
    echo "c:b" >text
    run "$MOEFW" tokenize encode ./both.json text
    [ "$output" = "0 2 4" ]
    sed 's/"a": 1, ":b": 2/"x": 1, "y": 2/' both.json >neither.json
    run "$MOEFW" tokenize encode ./neither.json text
    [ "$status" -eq 3 ]
    [[ "$output" == *'"merges": entry 2, "a::b": more than one of its colons'* ]]
}

@test "tokenize: a vocabulary as LaMoE's JSON, and back" {
    printf 'low lower lowest new newer wider: the low tower.\n%.0s' 1 2 3 >text
    "$MOEFW" tokenize train bpe text --merges 25 --eos -o own.json
    run "$MOEFW" tokenize export own.json -o lamoe.json
    [ "$status" -eq 0 ]
    [[ "$output" == "lamoe.json: bpe, "*" ids" ]]
    grep -qE '^\{"vocab_dict":\{"<pad>":0,"<unk>":1,.*\},"merges":\{"[^"]*:[^"]*":"[^"]*",.*\},"max_iter":25\}$' lamoe.json
    grep -qF '"lower</w>":' lamoe.json
    echo "lower towers, newt: wide" >words
    "$MOEFW" tokenize encode own.json words --eos >ids
    "$MOEFW" tokenize encode ./lamoe.json words --eos | cmp - ids
    [ "$("$MOEFW" tokenize decode ./lamoe.json ids)" = "$("$MOEFW" tokenize decode own.json ids)" ]
    # to moefw's own layout and back without a change
    "$MOEFW" tokenize export lamoe.json --format moefw -o again.json
    "$MOEFW" tokenize export again.json -o again-lamoe.json
    cmp lamoe.json again-lamoe.json
    # what LaMoE's layout cannot represent: a colon within a token, tokens of other kinds
    echo 'c: c: c: :a :a :a c:a' >text
    "$MOEFW" tokenize train bpe text --merges 40 --min-count 1 -o colons.json
    run "$MOEFW" tokenize export colons.json -o bad.json
    [ "$status" -eq 3 ]
    [[ "$output" == *"bad.json: this vocabulary has no form in the layout vocab_dict: "*colon* ]]
    [ ! -e bad.json ]
    "$MOEFW" tokenize train bpe_bytes text --vocab-size 258 -o bytes.json
    for kind in bytes.json byte; do
        run "$MOEFW" tokenize export $kind -o bad.json
        [ "$status" -eq 3 ]
        [[ "$output" == *"of kind byte"*"expected one of kind bpe" || "$output" == *"of kind bpe_bytes"*"expected one of kind bpe" ]]
    done
    run "$MOEFW" tokenize export own.json
    [ "$status" -eq 2 ]
    [[ "$output" == *"--out FILE is needed"* ]]
}

@test "tokenize: LaMoE's trainer, with its order of merges, its counts and its ids" {
    # expected: the result of the published trainer for these words (special token <eos>). Its
    # counts keep a and aa, which no word contains after the last of 20 merges
    yes "aaaa aaab baaa abab ababa" | head -n 3 >text
    "$MOEFW" tokenize train bpe text --trainer lamoe --merges 6 --eos --format lamoe -o six.json
    [ "$(cat six.json)" = '{"vocab_dict":{"<pad>":0,"<eos>":1,"<unk>":2,"a":3,"a</w>":4,"aa":5,"aaaa</w>":6,"ab":7,"ab</w>":8,"b":9},"merges":{"a:a":"aa","a:b":"ab","ab:</w>":"ab</w>","a:</w>":"a</w>","aa:aa":"aaaa","aaaa:</w>":"aaaa</w>"},"max_iter":6}' ] ||
        { cat six.json; false; }
    "$MOEFW" tokenize train bpe text --trainer lamoe --merges 20 --eos -o twenty.json
    "$MOEFW" tokenize export twenty.json -o out.json
    [ "$(cat out.json)" = '{"vocab_dict":{"<pad>":0,"<eos>":1,"<unk>":2,"a":3,"aa":4,"aaaa</w>":5,"aaab</w>":6,"abab</w>":7,"ababa</w>":8,"baaa</w>":9},"merges":{"a:a":"aa","a:b":"ab","ab:</w>":"ab</w>","a:</w>":"a</w>","aa:aa":"aaaa","aaaa:</w>":"aaaa</w>","aa:ab</w>":"aaab</w>","b:aa":"baa","baa:a</w>":"baaa</w>","ab:ab</w>":"abab</w>","ab:ab":"abab","abab:a</w>":"ababa</w>"},"max_iter":20}' ] ||
        { cat out.json; false; }
    # training ends when the vocabulary has its size: 6 symbols, <pad>, <unk> and <eos>
    run "$MOEFW" tokenize train bpe text --trainer lamoe --vocab-size 9 --eos --format lamoe -o size.json
    [ "$output" = "size.json: bpe, 9 ids" ]
    [ "$(grep -o ':"' size.json | wc -l)" -eq 3 ]
    [[ "$(cat size.json)" == *'"max_iter":3}' ]]
    # moefw's own default: every symbol has an id, </w> too
    "$MOEFW" tokenize train bpe text --merges 6 --eos --format lamoe -o own.json
    ! cmp -s own.json six.json || false
    run "$MOEFW" tokenize train wordpiece text --trainer lamoe -o bad.json
    [ "$status" -eq 2 ]
    [[ "$output" == *"--trainer=vocab_dict makes tokenizers of kind bpe, not wordpiece"* ]]
    run "$MOEFW" tokenize train bpe text --trainer llama -o bad.json
    [ "$status" -eq 2 ]
    [ ! -e bad.json ]
}

@test "tokenize: damaged JSON of LaMoE is reported with its entry" {
    echo low >text
    damaged() { # SED-COMMAND MESSAGE
        lamoe | sed "$1" >bad.json
        run "$MOEFW" tokenize encode ./bad.json text
        [ "$status" -eq 3 ] && [[ "$output" == *"bad.json: "*"$2"* ]] || { echo "$1: $status $output"; return 1; }
    }
    damaged 's/"h": 6/"h": 5/' "id 5: expected each of 0 to 13 once"
    damaged 's/"h": 6/"h": 99/' "id 99: expected each of 0 to 13 once"
    damaged 's/"h": 6/"h": -1/' '"vocab_dict": "h": expected an id'
    damaged 's/"h": 6/"h": "6"/' '"vocab_dict": "h": expected an id'
    damaged 's/"h": 6/"": 6/' '"vocab_dict": "": expected a token'
    damaged 's/"<unk>": 3/"z": 3/' "expected an id of <unk>"
    damaged 's/"l:ow"/"l ow"/' '"merges": entry 1, "l ow": expected LEFT:RIGHT'
    damaged 's/"l:ow": "low"/"l:ow": "l:ow"/' '"merges": entry 1, "l:ow": expected its two tokens as one'
    damaged 's/"l:ow": "low"/"l:ow": 7/' '"merges": entry 1, "l:ow": expected its two tokens as one'
    damaged 's/"l:ow": "low"/"lo:w": "low"/' '"merges": entry 1, "lo:w": expected LEFT:RIGHT, each a character'
    damaged 's/"merges"/"merged"/' '"merges": expected an object'
    # moefw's own file with such ids
    lamoe >lamoe.json
    printf 'low lower low lower the new\n%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 >train.txt
    "$MOEFW" train -q -t 1 --steps 1 --out again --data train.txt --set data.tokenizer=./lamoe.json \
        --set model.layers=1 --set model.dim=8 --set model.heads=2 --set model.seq=8 --set train.batch=2 \
        --set train.eval_context=0
    for change in 's/"<unk>":3/"<unk>":4/' 's/"ids":\[[-0-9]*,/"ids":[/' 's/"ids":\[[-0-9]*,/"ids":["a",/' \
        's/"special_ids":{/"special_ids":{"<other>":1,/' 's/"<pad>":0/"<pad>":-2/'; do
        sed "$change" again/tokenizer.json >bad.json
        ! cmp -s again/tokenizer.json bad.json || false
        run "$MOEFW" tokenize encode ./bad.json text
        [ "$status" -eq 3 ] || { echo "$change: $status $output"; return 1; }
    done
}

@test "data: an HDF5 file is distinguished from a token file" {
    printf '\211HDF\r\n\032\n0123456789' >train.h5
    run "$MOEFW" train --out run --train-file train.h5 --set data.format=bin --set data.tokenizer=byte
    [ "$status" -eq 3 ]
    [[ "$output" == *"train.h5: an HDF5 file, which is not read: expected ids of 16 or 32 bits"* ]]
    [ ! -e run ]
}

@test "tokenize: token files of 32 bits; pairs that occur once" {
    printf 'low lower newest\n' >text
    "$MOEFW" tokenize train bpe_bytes text --vocab-size 260 --out b.json
    "$MOEFW" tokenize encode b.json text --bin short.bin
    "$MOEFW" tokenize encode b.json text --bin long.bin --bits 32
    [ "$(wc -c <long.bin)" -eq $((2 * $(wc -c <short.bin))) ]
    [ "$(od -An -v -tu2 -w2 short.bin | tr -d ' ')" = "$(od -An -v -tu4 -w4 long.bin | tr -d ' ')" ]
    yes "low lower newest" | head -n 40 >text
    "$MOEFW" tokenize encode b.json text --bin long.bin --bits 32 --force
    run "$MOEFW" data info long.bin --tokenizer ./b.json
    [ "$status" -eq 3 ]
    [[ "$output" == *"expected data.bin_bits = 32"* ]]
    "$MOEFW" train -q -t 1 --steps 1 --out wide --data long.bin --set data.tokenizer=./b.json \
        --set data.bin_bits=32 --set data.format=bin --set model.layers=1 --set model.dim=8 \
        --set model.heads=2 --set model.seq=8 --set train.batch=2 --set train.eval_context=0
    # 3 words in which only l o w and w e occur twice: else all would merge, as in LaMoE's trainer
    echo "low lower newest" >text
    "$MOEFW" tokenize train bpe text --vocab-size 100 --out twice.json
    run "$MOEFW" tokenize train bpe text --vocab-size 100 --min-count 1 --out once.json
    [ "$status" -eq 0 ]
    run "$MOEFW" tokenize encode once.json text
    [ "$(wc -w <<<"$output")" -eq 3 ]
    run "$MOEFW" tokenize encode twice.json text
    [ "$(wc -w <<<"$output")" -gt 6 ]
}

@test "tokenize: a vocabulary, ids and back to the text; invalid input is refused" {
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

# A very small run with two checkpoints.
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

@test "a warning if examples are read as plain text" {
    cd "$BATS_TEST_TMPDIR"
    for i in 1 2 3 4 5 6 7 8; do
        echo "{\"text\": \"a line of some words $i\"}"
    done >lines.jsonl
    tiny=(-q -t 1 --steps 1 --data lines.jsonl --set model.dim=8 --set model.heads=1 --set model.seq=8
        --set train.batch=2 --set train.eval_batches=1 --set train.eval_context=0)
    run "$MOEFW" train "${tiny[@]}" --out raw --set data.format=text
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "moefw: warning: lines.jsonl is read as running text, but seems to be jsonl (data.format = text); data.format = jsonl reads it so" ]
    run "$MOEFW" train "${tiny[@]}" --out lines
    [ "$status" -eq 0 ]
    [ "$output" = lines ]
}

# le WIDTH NUMBER...: little-endian numbers
le() {
    local width=$1 n i
    shift
    for n; do
        for ((i = 0; i < width; i++)); do
            # shellcheck disable=SC2059
            printf "\\x$(printf %02x $(((n >> (8 * i)) & 255)))"
        done
    done
}

# megatron NAME TYPE WIDTH LENGTH POINTER...: an index of Megatron for sequences
megatron() {
    local name=$1 type=$2 n=0 lengths=() pointers=()
    shift 2
    while [ $# -gt 0 ]; do
        lengths+=("$1")
        pointers+=("$2")
        n=$((n + 1))
        shift 2
    done
    { printf 'MMIDIDX\0\0'; le 8 1; le 1 "$type"; le 8 $n 2; le 4 "${lengths[@]}"; le 8 "${pointers[@]}"; le 8 0 $n; } >"$name.idx"
}

@test "one file for training and validation: what is said of it is said once" {
    cd "$BATS_TEST_TMPDIR"
    for i in {1..60}; do printf 'good words\tyes\nbad words\tno\nother words\t-\n'; done >classes.tsv
    args=(-q -t 1 --steps 1 --set model.task=classify --set model.layers=1 --set model.dim=8 --set model.heads=1 --set model.seq=16
        --set train.eval_context=0 --set train.batch=2 --set report.enabled=no --data classes.tsv --set data.val_path=classes.tsv)
    "$MOEFW" train "${args[@]}" --out c 2>said
    [ "$(grep -c '60 examples skipped' said)" -eq 1 ]
    "$MOEFW" eval c -t 1 --data classes.tsv 2>said >out
    [ "$(grep -c 'classes.tsv: 60 examples skipped: their label is "-"' said)" -eq 1 ]
}

@test "token files of Megatron are read by their index, whatever their type; bad ones are refused" {
    ids=$(seq 1 40)
    # shellcheck disable=SC2086
    le 2 $ids >plain.bin
    info() { "$MOEFW" data info "$1" --json | sed "s/\"$1\"/X/; s/\"[a-z]*bytes\":[0-9]*,*//g"; }
    expected=$(info plain.bin)
    for one in 1:1 3:2 4:4 5:8 8:2; do
        width=${one#*:}
        # shellcheck disable=SC2086
        le "$width" $ids >m.bin
        megatron m "${one%:*}" 30 0 10 $((30 * width))
        [ "$(info m.bin | sed 's/m\.bin/plain.bin/')" = "$expected" ] || { info m.bin; echo "$expected"; false; }
    done
    bad() {
        run "$MOEFW" data info m.bin
        echo "$output"
        [ "$status" -eq 3 ]
        [[ "$output" == *"$1"* ]]
    }
    # shellcheck disable=SC2086
    le 2 $ids >m.bin
    megatron m 8 41 0
    bad "sequence 0 has 41 ids from byte 0 on, the .bin file has 80 bytes"
    megatron m 6 40 0
    bad "type 6 of the ids"
    { printf 'MMIDIDX\0\0'; le 8 1; le 1 8; le 8 1152921504606846976 1; } >m.idx
    bad "do not fit into 34 bytes"
    { printf 'MMIDIDX\0\0'; le 8 2; le 1 8; le 8 0 0; } >m.idx
    bad "version 2"
    le 2 65535 65535 >m.bin
    megatron m 3 2 0
    bad "an id is 65535"
}

@test "a folder and a pattern are read file by file, in the order of their names" {
    mkdir -p folder/sub
    printf 'first part, ' >folder/a.txt
    printf 'second part, ' >folder/B.txt
    printf 'hidden' >folder/.c.txt
    printf 'deeper' >folder/sub/d.txt
    cat folder/B.txt folder/a.txt >whole.txt
    for i in $(seq 40); do cat folder/B.txt; done >folder/C.txt
    cat folder/B.txt folder/C.txt folder/a.txt >whole.txt
    args=(-q -t 1 --steps 2 --set model.layers=1 --set model.dim=8 --set model.heads=1 --set model.seq=8
        --set train.eval_context=0 --set train.batch=2 --set report.enabled=no)
    "$MOEFW" train "${args[@]}" --out w --data whole.txt
    "$MOEFW" train "${args[@]}" --out f --data folder
    "$MOEFW" train "${args[@]}" --out g --data 'folder/*.txt'
    cmp w/ckpt/step-2/model.safetensors f/ckpt/step-2/model.safetensors
    cmp w/ckpt/step-2/model.safetensors g/ckpt/step-2/model.safetensors
    mkdir -p lines empty
    printf '{"text": "one"}\n{"text": "two"}\n' >lines/a.jsonl
    printf '{"text": "three"}\n{"text" 4}\n' >lines/b.jsonl
    run "$MOEFW" data info lines
    [ "$status" -eq 3 ]
    [[ "$output" == *"lines/b.jsonl:2"* ]]
    run "$MOEFW" data info empty
    [ "$status" -eq 3 ]
    [[ "$output" == *"the folder holds no files to read"* ]]
    mkdir -p domains/a domains/b domains/.hidden
    echo text | tee domains/a/text >domains/b/text
    run "$MOEFW" data info domains
    [ "$status" -eq 3 ]
    [[ "$output" == *"domains: the folder holds 2 folders, but no files to read; expected files, a pattern such as "*", or labels = folder"* ]]
    run "$MOEFW" data info 'none-*.txt'
    [ "$status" -eq 3 ]
    [[ "$output" == *"no file matches the pattern"* ]]
    # a folder that cannot be read is named; one that is not there has no files
    ln -s loop loop
    run "$MOEFW" data info 'loop/*.txt'
    [ "$status" -eq 3 ]
    [[ "$output" == *"loop: cannot open: "* ]]
    run "$MOEFW" data info 'gone/*.txt'
    [ "$status" -eq 3 ]
    [[ "$output" == *"gone/*.txt: no file matches the pattern"* ]]
}

@test "a token file far larger than memory may grow: starts and resumes exactly, in little memory" {
    # a sparse file of 700 MB, in the slow group of 10 GB; its first ids say that it is one of 16 bits
    printf '\1\0\2\0\3\0\4\0' >big.bin
    size=700M
    [ -z "${MOEFW_SLOW:-}" ] || size=10G
    truncate -s $size big.bin
    export XDG_CACHE_HOME="$BATS_TEST_TMPDIR/cache"
    args=(-q -t 1 --data big.bin --set data.shuffle=epochs --set model.layers=1 --set model.dim=16 --set model.heads=1
        --set model.seq=64 --set train.batch=16 --set train.eval_context=0 --set train.eval_batches=2 --set train.final_batches=2
        --set train.save_every=10 --set train.eval_every=0 --set train.schedule=constant --set report.enabled=no)
    "$MOEFW" train "${args[@]}" --steps 60 --out whole
    "$MOEFW" train "${args[@]}" --steps 30 --out half
    "$MOEFW" train half --resume -q -t 2 --set train.steps=60
    cmp whole/ckpt/step-60/model.safetensors half/ckpt/step-60/model.safetensors
    for run in whole half; do
        peak=$(sed -n 's/.*"peak_rss_mib":\([0-9]*\).*/\1/p' $run/memory.jsonl | sort -n | tail -1)
        echo "$run: $peak MiB"
        [ "$peak" -gt 0 ]
        [ "$peak" -lt 200 ]
    done
}

@test "texts become token files in data.cache: the same run, whatever is in the folder" {
    "$MOEFW" data synth --out text.txt --bytes 60000 >/dev/null
    args=(-q -t 1 --steps 4 --data text.txt --set data.tokenizer=char --set model.layers=1 --set model.dim=8 --set model.heads=1
        --set model.seq=8 --set train.eval_context=0 --set train.batch=2 --set report.enabled=no)
    "$MOEFW" train "${args[@]}" --out a
    "$MOEFW" train "${args[@]}" --out b --set data.cache="$PWD/cache"
    cmp a/ckpt/step-4/model.safetensors b/ckpt/step-4/model.safetensors
    [ "$(find cache -name 'text-*.bin' | wc -l)" -eq 2 ]
    "$MOEFW" train "${args[@]}" --out c --set data.cache="$PWD/cache"
    cmp a/ckpt/step-4/model.safetensors c/ckpt/step-4/model.safetensors
    [ "$(find cache -name 'text-*.bin' | wc -l)" -eq 2 ]
    echo more >>text.txt
    "$MOEFW" train "${args[@]}" --out d --set data.cache="$PWD/cache"
    [ "$(find cache -name 'text-*.bin' | wc -l)" -eq 4 ]
}

@test "what a killed process left in data.cache is removed by the next one, but nothing that somebody writes" {
    "$MOEFW" data synth --out text.txt --bytes 60000 >/dev/null
    "$MOEFW" data synth --out large.txt --labels large.u8 --bytes 30000000 >/dev/null
    args=(-q -t 1 --steps 1 --set data.tokenizer=char --set data.cache="$PWD/cache" --set model.layers=1 --set model.dim=8
        --set model.heads=1 --set model.seq=8 --set train.eval_context=0 --set train.batch=2 --set report.enabled=no)
    # a process that stands still is one that writes
    "$MOEFW" train "${args[@]}" --data large.txt --out killed 3>&- &
    pid=$!
    until [ -n "$(find cache -name '*.tmp' 2>/dev/null)" ]; do kill -0 "$pid"; done
    kill -STOP "$pid"
    draft=$(find cache -name '*.tmp')
    touch -d '2 days ago' "$draft"
    "$MOEFW" train "${args[@]}" --data text.txt --out a
    [ "$(find cache -name '*.tmp')" = "$draft" ]
    kill -KILL "$pid"
    wait "$pid" || true
    # drafts of earlier versions have no lock, so that their age must tell
    hash=0123456789abcdef0123456789abcdef
    touch cache/text-$hash.bin.4711 cache/ids-$hash.json.4711-0.tmp cache/mine.tmp cache/text-$hash.bin.mine
    "$MOEFW" train "${args[@]}" --data text.txt --out b
    [ "$(find cache -name '*tmp' -o -name '*.bin.*' | wc -l)" -eq 4 ]
    touch -d '2 days ago' cache/*
    "$MOEFW" train "${args[@]}" --data text.txt --out c
    [ "$(find cache -name '*tmp' -o -name '*.bin.*' | sort | tr '\n' ' ')" = "cache/mine.tmp cache/text-$hash.bin.mine " ]
}

# number KEY FILE: its value in the first line of a metrics file
number() { sed -n "1s/.*\"$1\":\([-0-9.e]*\).*/\1/p" "$2"; }

# close A B: equal to 1 in 100,000
close() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d <= 1e-5 * (a < 0 ? -a : a)) }'; }

@test "packing: the loss and the gradient of a step are those of the single documents" {
    # 24 documents in one step: alone in 24 sequences, or packed in 8 full ones of 32 positions
    for i in $(seq 0 23); do
        n=21 # 20, 7 and 5 targets fill a sequence of 32
        [ $((i % 3)) -eq 1 ] && n=8
        [ $((i % 3)) -eq 2 ] && n=6
        printf '{"text": "%s"}\n' "$(printf 'abcdefghijklmnopqrstuvwxyz%04d' $((i * 7919)) | rev | cut -c 1-$n)"
    done >documents.jsonl
    for position in learned rope; do
        args=(-q --data documents.jsonl --set data.split=1 --set model.layers=2 --set model.dim=32 --set model.heads=4
            --set model.kv_heads=2 --set model.seq=32 --set model.position=$position --set moe.experts=4 --set expert.hidden=32
            --set regularizer.balance.plugin=none --set train.eval_context=0 --set report.enabled=no --steps 1)
        "$MOEFW" train "${args[@]}" -t 1 --out alone-$position --set train.batch=24
        "$MOEFW" train "${args[@]}" -t 1 --out packed-$position --set train.batch=8 --set data.packing=yes
        "$MOEFW" train "${args[@]}" -t 2 --out again-$position --set train.batch=8 --set data.packing=yes
        for key in task_loss grad_norm; do
            a=$(number $key alone-$position/metrics.jsonl)
            b=$(number $key packed-$position/metrics.jsonl)
            echo "$position $key: $a $b"
            close "$a" "$b"
        done
        cmp packed-$position/ckpt/step-1/model.safetensors again-$position/ckpt/step-1/model.safetensors
    done
    ! cmp -s packed-rope/ckpt/step-1/model.safetensors alone-rope/ckpt/step-1/model.safetensors || false
    run "$MOEFW" train "${args[@]}" --out bad --set data.packing=yes --set expert.plugin=attention
    [ "$status" -eq 2 ]
    [[ "$output" == *"data.packing = yes: a plugin of this model looks at other tokens of a sequence"* ]]
    run "$MOEFW" config check --set data.packing=yes --set model.window=8
    [ "$status" -eq 2 ]
    [[ "$output" == *"'packing' in [data]: expected no, or model.task = lm and model.window = 0"* ]]
    printf '\1\0\2\0\3\0\4\0%.0s' $(seq 40) >ids.bin
    run "$MOEFW" train "${args[@]}" --out bad --data ids.bin --set data.packing=yes
    [ "$status" -eq 2 ]
    [[ "$output" == *"nothing says where documents of a stream end: expected data.document_end"* ]]
    "$MOEFW" train "${args[@]}" --out stream --data ids.bin --set data.packing=yes --set data.document_end=4
}

# learn NAME FILE KEY=VALUE...: one step over all lines of a jsonl file; prints the tokens it learned from, and the loss
learn() {
    local name=$1 file=$2
    shift 2
    "$MOEFW" train -q -t 1 --steps 1 --out "$name" --data "$file" --set data.split=1 --set model.layers=1 --set model.dim=16 \
        --set model.heads=2 --set model.seq=64 --set train.batch=2 --set train.eval_context=0 --set report.enabled=no "${@/#/--set=}" >/dev/null
    number task_loss "$name/metrics.jsonl"
}

@test "jsonl: prompts do not count in the loss, answers do; members by name; messages" {
    printf '{"prompt": "ab ", "answer": "cdefgh"}\n{"question": "What? ", "response": "That."}\n' >pairs.jsonl
    answer=$(learn a pairs.jsonl)
    all=$(learn b pairs.jsonl data.loss=all)
    printf '{"text": "ab cdefgh"}\n{"text": "What? That."}\n' >texts.jsonl
    text=$(learn c texts.jsonl)
    echo "$answer $all $text"
    [ "$all" = "$text" ] # the same tokens, all of them targets
    [ "$answer" != "$text" ]
    # the prompt of an answer of one token is all but the last of a text: their losses add up
    printf '{"prompt": "abcd", "answer": "e"}\n{"prompt": "abcd", "answer": "e"}\n' >last.jsonl
    printf '{"text": "abcde"}\n{"text": "abcde"}\n' >whole.jsonl
    printf '{"text": "abcd"}\n{"text": "abcd"}\n' >front.jsonl
    awk -v last="$(learn d last.jsonl)" -v whole="$(learn e whole.jsonl)" -v front="$(learn f front.jsonl)" \
        'BEGIN { d = 4 * whole - 3 * front - last; print last, whole, front; exit !(d < 1e-4 && d > -1e-4) }'
    # names of one's own; packed; a file that misses them
    sed 's/"prompt"/"in"/; s/"question"/"in"/; s/"answer"/"out"/; s/"response"/"out"/' pairs.jsonl >own.jsonl
    [ "$(learn g own.jsonl data.prompt_field=in data.answer_field=out)" = "$answer" ]
    packed=$(learn h pairs.jsonl data.packing=yes train.batch=1)
    close "$packed" "$answer" || { echo "$packed"; false; }
    run "$MOEFW" train -q --out x --data own.jsonl --set data.prompt_field=in --set data.answer_field=in
    [ "$status" -eq 3 ]
    [[ "$output" == *"own.jsonl:1: data.prompt_field and data.answer_field name the same member"* ]]
    run "$MOEFW" train -q --out x --data own.jsonl --set data.prompt_field=in
    [ "$status" -eq 3 ]
    [[ "$output" == *'own.jsonl:1: expected "in", a string, and "answer", a string that is not empty'* ]]
    run "$MOEFW" train -q --out x --data own.jsonl
    [ "$status" -eq 3 ]
    [[ "$output" == *'own.jsonl:1: expected an object with a member "text", a string that is not empty, or "prompt" and "answer", or "messages"'* ]]
    # messages without a template: each with its newline, which ends an answer
    printf '{"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "cd"}]}\n%.0s' 1 2 >chat.jsonl
    printf '{"prompt": "ab\\n", "answer": "cd\\n"}\n%.0s' 1 2 >same.jsonl
    [ "$(learn i chat.jsonl)" = "$(learn j same.jsonl)" ]
    printf '{"messages": [{"role": "data", "content": "ab"}]}\n' >bad.jsonl
    run "$MOEFW" data info bad.jsonl
    [ "$status" -eq 3 ]
    [[ "$output" == *'bad.jsonl:1: message 1: expected "role": system, user or assistant'* ]]
    printf '{"messages": [{"role": "user", "content": "ab"}]}\n' >bad.jsonl
    run "$MOEFW" data info bad.jsonl
    [ "$status" -eq 3 ]
    [[ "$output" == *'no message is of the assistant and counts: nothing to learn'* ]]
}

@test "too little in a file is bad input of that file" {
    printf 'ab' >two.txt
    printf 'a\tb\n' >one.tsv
    printf '\1\0' >one.bin
    for file in two.txt one.bin; do
        run "$MOEFW" train default --data "$file" --set data.format=auto -t 1 --steps 1 --out none
        [ "$status" -eq 3 ] || { echo "$file: $status: $output"; false; }
        [[ "$output" == *"$file: "* ]]
    done
    run "$MOEFW" train default --data two.txt -t 1 --steps 1 --out none
    [[ "$output" == *"two.txt: the train split has 1 tokens: windows of "* ]]
    run "$MOEFW" train default --data one.tsv --set model.task=classify -t 1 --steps 1 --out none
    [ "$status" -eq 3 ]
    [ ! -e none ]
}
