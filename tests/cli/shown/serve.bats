# moefw serve: the requests of lm-evaluation-harness 0.4.13, recorded; numbers, refusals, and its end.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || return 1
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o mixtral -q
    "$MOEFW" serve mixtral --port 0 -t 1 --json >port.json 2>log 3>&- &
    echo $! >pid
    for i in {1..100}; do
        [ -s port.json ] && break
        sleep .1
    done
    PORT=$(sed 's/.*"port":\([0-9]*\).*/\1/' port.json)
    export PORT
}
setup() { cd "$BATS_FILE_TMPDIR" || return 1; }
teardown_file() {
    if [ -e "$BATS_FILE_TMPDIR/pid" ]; then kill -TERM "$(cat "$BATS_FILE_TMPDIR/pid")" 2>/dev/null || true; fi
}

# ask PATH [BODY]: a request on a connection of its own; the body of the answer, its status in the file status
ask() {
    exec 9<>"/dev/tcp/127.0.0.1/$PORT"
    if [ $# -eq 1 ]; then
        printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n\r\n' "$1" "$PORT" >&9
    else
        printf 'POST %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
            "$1" "$PORT" "${#2}" "$2" >&9
    fi
    cat <&9 >answer
    exec 9>&-
    head -n 1 answer | cut -d ' ' -f 2 >status
    sed '1,/^\r$/d' answer
    echo
}

# listed KEY: the numbers of the array KEY in standard input, one a line
listed() {
    sed "s/.*\"$1\":\[//; s/\].*//" | tr ',' '\n'
}

@test "what the client asks about the tokenizer" {
    [ "$(ask /tokenizer_info)" = '{"eos_token":"</s>","bos_token":"<s>","pad_token":null,"unk_token":"<unk>","chat_template":null}' ]
    ask /tokenize '{"prompt": "</s>", "add_special_tokens": false}' | grep -q '"tokens":\[2\]'
    ids=$(ask /tokenize '{"prompt": "A blue bird", "add_special_tokens": false}' | sed 's/.*"tokens"://; s/}$//')
    [ "$(ask /detokenize "{\"tokens\": $ids}")" = '{"prompt":"A blue bird"}' ]
    ask /v1/models | grep -q '"id":"mixtral","object":"model","owned_by":"moefw","max_model_len":128'
    [ "$(cat status)" = 200 ]
}

@test "scored prompts have the bits of moefw eval --tasks" {
    echo '{"context":"A blue bird","choices":["flies","sat on it"],"gold":0}' >bird.jsonl
    "$MOEFW" eval mixtral --tasks bird.jsonl -q -t 1 --json | sed 's/.*loglikelihoods":\[\[//; s/\].*//' | tr ',' '\n' >there
    context=$(ask /tokenize '{"prompt": "A blue bird", "add_special_tokens": false}' | listed tokens | wc -l)
    for text in "A blue bird flies" "A blue bird sat on it"; do
        ask /tokenize "{\"prompt\": \"$text\", \"add_special_tokens\": false}" | sed 's/.*"tokens":\(\[.*\]\)}/\1/'
    done >prompts
    prompts=$(paste -sd , prompts)
    ask /v1/completions "{\"model\": \"m\", \"prompt\": [$prompts], \"temperature\": 0, \"max_tokens\": 1, \"logprobs\": 1, \"seed\": 1234, \"echo\": true}" >scored
    [ "$(cat status)" = 200 ]
    for i in 0 1; do
        # what the client does: the sum of [ctxlen:-1]
        sed 's/{"index"/\n&/g' scored | grep "^{\"index\":$i" | listed token_logprobs |
            awk -v n="$context" 'NR > n { v[++m] = $1 } END { for (i = 1; i < m; i++) s += v[i]; printf "%.17g\n", s }'
    done >here
    paste here there | awk '{ if ($1 - $2 != 0) exit 1; n++ } END { exit n != 2 }'
    # a position for each token of the prompt, and one more; the first has no probability
    [ "$(listed token_logprobs <scored | head -n 1)" = null ]
    n=$(head -n 1 prompts | tr ',' '\n' | wc -l)
    [ "$(sed 's/"index":1.*//' scored | listed token_logprobs | wc -l)" -eq $((n + 1)) ]
    # the same prompts as texts: the client counts the tokens, so none is added
    ask /v1/completions '{"prompt": ["A blue bird flies", "A blue bird sat on it"], "temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": true}' >texts
    cmp scored texts
}

@test "the likeliest token is the one that is drawn at temperature 0" {
    ask /v1/completions '{"prompt": [1, 5, 9], "temperature": 0, "max_tokens": 4, "logprobs": 3}' >drawn
    [ "$(listed token_logprobs <drawn | wc -l)" -eq 4 ]
    listed token_logprobs <drawn | while read -r p; do grep -q "{\"[^{}]*\":$p," drawn; done
    ask /v1/completions '{"prompt": [1, 5, 9], "temperature": 0, "max_tokens": 1, "logprobs": 3, "echo": true}' >one
    [ "$(listed token_logprobs <drawn | head -n 1)" = "$(listed token_logprobs <one | tail -n 1)" ]
    # a stop cuts the text in front of it
    text=$(ask /v1/completions '{"prompt": [1, 5, 9], "temperature": 0, "max_tokens": 8}' | sed 's/.*"text":"//; s/","logprobs.*//')
    stop=${text: -2:1}
    ask /v1/completions "{\"prompt\": [1, 5, 9], \"temperature\": 0, \"max_tokens\": 8, \"stop\": [\"$stop\"]}" >stopped
    grep -q '"finish_reason":"stop"' stopped
    [ "$(sed 's/.*"text":"//; s/","logprobs.*//' stopped)" = "${text%%"$stop"*}" ]
    # the same seed gives the same text
    body='{"prompt": "A", "temperature": 1, "max_tokens": 8, "seed": 5}'
    [ "$(ask /v1/completions "$body")" = "$(ask /v1/completions "$body")" ]
}

@test "requests that are refused say what was expected" {
    refused() {
        ask "$2" ${3+"$3"} >why
        [ "$(cat status)" = "$1" ] || { cat answer; return 1; }
        grep -qF "$4" why || { cat why; return 1; }
    }
    refused 400 /v1/completions '{"prompt": [1], "max_tokns": 1}' "unknown field 'max_tokns'; nearest: 'max_tokens'"
    refused 400 /v1/completions '{"prompt": [1, 99999]}' 'token 1 is 99999; expected one from 0 to'
    refused 400 /v1/completions '{"prompt": []}' 'expected at least one token'
    refused 400 /v1/completions '{"prompt": [1], "n": 2}' 'n: expected a whole number from 1 to 1'
    refused 400 /v1/completions '{"prompt": [1], "stream": true}' 'answers are sent whole'
    refused 400 /v1/completions '{}' 'prompt: expected a text'
    refused 400 /v1/completions 'no JSON' 'bad JSON'
    many=$(printf '1,%.0s' {1..129})1
    refused 400 /v1/completions "{\"prompt\": [$many], \"echo\": true, \"logprobs\": 1}" 'expected at most 129 tokens'
    refused 404 /v1/completion '{}' 'nearest: /v1/completions'
    exec 9<>"/dev/tcp/127.0.0.1/$PORT"
    printf 'GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n' >&9
    head -n 1 <&9 | grep -q '403 Forbidden'
    exec 9>&-
    exec 9<>"/dev/tcp/127.0.0.1/$PORT"
    printf 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n' >&9
    head -n 1 <&9 | grep -q '413 Content Too Large'
    exec 9>&-
}

@test "one connection, several requests; a client that waits holds up no other" {
    exec 8<>"/dev/tcp/127.0.0.1/$PORT"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n{"prompt"' >&8
    exec 9<>"/dev/tcp/127.0.0.1/$PORT"
    for i in 1 2; do printf 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'; done >&9
    printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&9
    [ "$(cat <&9 | grep -c '200 OK')" -eq 3 ]
    exec 9>&- 8>&-
}

@test "a port in use, and the end by a signal" {
    run -1 "$MOEFW" serve mixtral --port "$PORT" -t 1 -q
    [[ "$output" == *"port $PORT of 127.0.0.1 is in use"* ]]
    kill -TERM "$(cat pid)"
    for i in {1..50}; do
        kill -0 "$(cat pid)" 2>/dev/null || break
        sleep .1
    done
    grep -q 'requests, .* prompts, .* tokens answered' log
}
