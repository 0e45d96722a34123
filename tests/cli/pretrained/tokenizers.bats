# Tokenizers of published models: a file or a folder for `tokenize` and `data.tokenizer`, templates before
# a prompt, and messages of a conversation.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    small=$srcdir/tests/golden/pretrained/tokenizers
}

# train TOKENIZER: a run that has hardly learned anything
train() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "Hello world, it is what it is: 12 times."; done >text
    "$MOEFW" train -q --out run --set data.path=text --set data.tokenizer="$1" --set model.layers=1 \
        --set model.dim=16 --set model.seq=64 --set expert.hidden=16 --set train.batch=2 --set data.split=0.6 \
        --set train.steps=2 --set train.eval_context=0 >/dev/null
}

@test "a text goes to ids and back, by file and by folder" {
    printf 'na\303\257ve <|endoftext|>  12\n' >text
    for name in gpt2 o200k deepseek; do
        "$MOEFW" tokenize encode "$small/$name/tokenizer.json" text >ids
        run "$MOEFW" tokenize encode "$small/$name" text
        [ "$status" -eq 0 ]
        [ "$output" = "$(cat ids)" ]
        "$MOEFW" tokenize decode "$small/$name" ids >back
        printf '\n' | cat text - | cmp - back
    done
    run "$MOEFW" tokenize encode "$small/gpt2_lists" text
    [ "$output" = "$("$MOEFW" tokenize encode "$small/gpt2" text)" ]
}

@test "--template puts the special tokens around a text" {
    printf 'two words' >text
    plain=$("$MOEFW" tokenize encode "$small/bert" text)
    run "$MOEFW" tokenize encode "$small/bert" text --template
    [ "$output" = "2 $plain 3" ]
    run "$MOEFW" tokenize encode "$small/gpt2" text --template
    [ "$output" = "$("$MOEFW" tokenize encode "$small/gpt2" text)" ]
    run "$MOEFW" tokenize encode "$small/bert" text --template --eos
    [ "$status" -eq 2 ]
}

@test "a folder without a vocabulary, and what cannot be done exactly, are refused" {
    mkdir folder
    run "$MOEFW" tokenize encode ./folder text
    [ "$status" -ne 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"folder: no tokenizer: expected tokenizer.json"* ]]
    : >folder/tokenizer.model
    run "$MOEFW" tokenize encode ./folder text
    [[ "$output" == *"tokenizer.model: expected a model of sentencepiece" ]]
    sed 's/"type":"ByteLevel"/"type":"UnicodeScripts"/' "$small/gpt2/tokenizer.json" >folder/tokenizer.json
    cmp -s "$small/gpt2/tokenizer.json" folder/tokenizer.json && sed -i 's/"ByteLevel"/"UnicodeScripts"/' folder/tokenizer.json
    run "$MOEFW" tokenize encode ./folder text
    [ "$status" -eq 3 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *'folder/tokenizer.json: "pre_tokenizer": "UnicodeScripts": expected Split'* ]]
}

@test "tokenizer.json: cutting and padding are named, other versions and mixed merges refused" {
    printf 'Hello Hello Hello Hello' >text
    mkdir folder
    change() { sed -E "$1" "$small/gpt2/tokenizer.json" >folder/tokenizer.json; }
    plain=$("$MOEFW" tokenize encode "$small/gpt2" text)
    change '3s/null/{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0}/; 4s/null/{"strategy":{"Fixed":99},"direction":"Right","pad_to_multiple_of":null,"pad_id":0,"pad_type_id":0,"pad_token":"x"}/'
    for what in folder/tokenizer.json "$PWD/folder"; do
        run "$MOEFW" tokenize encode "$what" text
        [ "$status" -eq 0 ]
        [[ "$output" == *'tokenizer.json: "truncation" is not followed: texts are not cut'* ]]
        [[ "$output" == *'tokenizer.json: "padding" is not followed: nothing is added to them'* ]]
        [ "${lines[2]}" = "$plain" ]
    done
    # a run tells it when it is begun, and not again
    train "$PWD/folder"
    run "$MOEFW" eval run -q
    [[ "$output" != *"not followed"* ]]
    change '2s/1\.0/2.0/'
    run "$MOEFW" tokenize encode ./folder text
    [ "$status" -eq 3 ]
    [[ "$output" == *'folder/tokenizer.json: "version": expected "1.0", found 2.0' ]]
    tr -d '\n' <"$small/gpt2/tokenizer.json" | sed -E 's/("merges": *\[ *\[[^]]*\], *)\[ *"([^"]*)", *"([^"]*)" *\]/\1"\2 \3"/' >folder/tokenizer.json
    run "$MOEFW" tokenize encode ./folder text
    [ "$status" -eq 3 ]
    [[ "$output" == *'"merges": entry 1: expected the form of the first one: all texts, or all lists' ]]
}

@test "a run keeps the tokenizer, and begins texts with its template" {
    train "$small/mistral"
    rm text
    a=$("$MOEFW" generate run -q -p "Hello" -n 8 --temp 0)
    b=$("$MOEFW" generate run -q -p "Hello" -n 8 --temp 0 --no-cache)
    [ "$a" = "$b" ]
    printf 'Hello' >text
    run "$MOEFW" tokenize encode run/tokenizer.json text
    [ "$output" = "$("$MOEFW" tokenize encode "$small/mistral" text)" ]
    printf '/temp 0\n/tokens 2\nHello\n/route\nHello\n/route\n' >lines
    run "$MOEFW" generate run -q -i <lines
    [ "$status" -eq 0 ]
    [ "$(grep -c '<bos>' <<<"$output")" -eq 2 ] # each /route shows the one at the beginning
}

@test "messages: in the form of the template, or in a form by name" {
    train "$small/qwen2_lists"
    printf '/temp 0\n/tokens 1\nHello\nHello\n/route\n' >lines
    run "$MOEFW" generate run -q -i --chat chatml <lines
    [ "$status" -eq 0 ]
    [[ "$output" == *"a message"* ]]
    [ "$(grep -c 'im_start' <<<"$output")" -eq 4 ]
    run "$MOEFW" generate run -q -i <lines
    [[ "$output" == *"Each line is continued"* ]]
    [[ "$output" != *im_start* ]]
    run "$MOEFW" generate run -q -p Hello -n 1 --chat mistral
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ "${lines[1]}" == "moefw: "*"needs <bos>"* ]]
    mkdir own
    cp "$small/qwen2_lists/vocab.json" "$small/qwen2_lists/merges.txt" own
    cat >own/tokenizer_config.json <<'JSON'
{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "added_tokens_decoder": {
 "509": {"content": "<|endoftext|>"}, "510": {"content": "<|im_start|>"}, "511": {"content": "<|im_end|>"}},
 "chat_template": "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"}
JSON
    rm -r run
    train "$PWD/own"
    run "$MOEFW" generate run -q -i <lines
    [ "$(grep -c 'im_start' <<<"$output")" -eq 4 ]
    run "$MOEFW" generate run -q -p Hello -n 1 --chat auto
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = Hello ]
    # another template is rendered; one that is not read: asked for, an error; else lines as they are, which is told
    sed -i 's/im_start|>assistant/im_start|>answer/' own/tokenizer_config.json
    rm -r run
    train "$PWD/own"
    run "$MOEFW" generate run -q -i <lines
    [ "$status" -eq 0 ]
    [[ "$output" == *"a message"* ]]
    [ "$(grep -c 'im_start' <<<"$output")" -eq 4 ]
    sed -i 's/endfor %}/include %}/' own/tokenizer_config.json
    rm -r run
    train "$PWD/own"
    run "$MOEFW" generate run -i --chat auto <lines
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: --chat=auto: the tokenizer's template of messages is not read (chat_template:1: {% include %} is not read: "*"): expected plain, chatml or mistral" ]]
    run "$MOEFW" generate run -q -i <lines
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "moefw: warning: the tokenizer's template of messages is not read (chat_template:1: "*"): lines are continued"* ]]
    [[ "${lines[1]}" == "Each line is continued;"* ]]
}

@test "ids beyond 16 bits need a file of 32" {
    { cat "$small/bert_list/vocab.txt"; seq -f '##%.0f' 65536; } >vocab.txt
    echo hello >text
    run "$MOEFW" tokenize encode vocab.txt text --bin ids
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: $(wc -l <vocab.txt) ids do not fit into the 16 bits of a token file: expected --bits=32" ]
    [ ! -e ids ]
    "$MOEFW" tokenize encode vocab.txt text --bin ids --bits 32 -q
    [ "$(od -An -t u4 ids | xargs)" = "$("$MOEFW" tokenize encode vocab.txt text)" ]
}
