# moefw eval --tasks: log-likelihoods of choices equal those of transformers; shares, intervals, refusals.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || return 1
    for model in gpt2 mixtral qwen2_moe; do
        "$MOEFW" import "$srcdir/tests/golden/pretrained/$model/hf" -o "$model" -q
    done
}
setup() { cd "$BATS_FILE_TMPDIR" || return 1; }

# numbers: those of a nested JSON array, one a line, null as a word
numbers() {
    tr -d '[] ' | tr ',' '\n'
}

@test "log-likelihoods of three models are those of transformers within 1e-4" {
    for model in gpt2 mixtral qwen2_moe; do
        "$MOEFW" eval $model --tasks "$srcdir/tests/golden/tasks/items.jsonl" -t 2 -q --json |
            sed 's/.*"loglikelihoods"://; s/}\]$//' | numbers >here
        numbers <"$srcdir/tests/golden/tasks/$model.json" >there
        [ "$(wc -l <here)" -eq 12 ]
        paste here there | awk '$2 != "null" { d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4) print; n++ } END { print n > "/dev/stderr" }' >far 2>compared
        [ "$(cat far)" = "" ] || { cat far; return 1; }
        [ "$(cat compared)" -ge 10 ]
    done
}

@test "shares of right answers, their errors and Wilson's interval" {
    # by hand from the likelihoods: of the five items the third has its longest choice as the right one
    run "$MOEFW" eval mixtral --tasks "$srcdir/tests/golden/tasks/items.jsonl" -t 1 -q
    [ "$status" -eq 0 ]
    [[ "$output" == *"items.jsonl acc       0.8000 +- 0.2000 [0.3755, 0.9638]  5 items"* ]]
    [[ "$output" == *"items.jsonl acc_norm  0.6000 +- 0.2449 [0.2307, 0.8824]  5 items"* ]]
    # characters, not bytes: a choice of two-byte letters
    printf '{"context":"a","choices":["\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc","x"],"gold":0}\n\n' >two.jsonl
    "$MOEFW" eval mixtral --tasks two.jsonl,two.jsonl -t 1 -q --json >out
    [ "$(grep -o '"task":"two.jsonl","items":1,' out | wc -l)" -eq 2 ]
    awk '{ match($0, /"loglikelihoods":\[\[[-0-9.]*,[-0-9.]*/); split(substr($0, RSTART + 19, RLENGTH - 19), v, ",")
        norm = v[1] / 4 > v[2]; bytes = v[1] / 8 > v[2]
        if (!index($0, "\"acc_norm\":{\"value\":" norm ",")) exit 1
        if (!index($0, "\"acc_bytes\":{\"value\":" bytes ",")) exit 1 }' out
}

@test "a text longer than the window keeps its last tokens" {
    word=$(printf 'word %.0s' {1..200})
    printf '{"context":"%s","choices":["end","stop"],"gold":0}\n' "$word" >long.jsonl
    "$MOEFW" eval gpt2 --tasks long.jsonl -t 1 -q --json | grep -q '"loglikelihoods":\[\[-'
    printf '{"context":"a","choices":["%s","stop"],"gold":0}\n' "$word" >long.jsonl
    run "$MOEFW" eval gpt2 --tasks long.jsonl -t 1 -q
    [ "$status" -eq 3 ]
    [[ "$output" == *"long.jsonl: item 1, choice 0: expected 1 to 64 tokens behind the context, found "* ]]
}

@test "examples stand before the items, drawn as Python draws them" {
    for i in {0..29}; do echo '{"context":"Question '"$i"':","choices":["no '"$i"'","yes '"$i"'"],"gold":'$((i % 2))'}'; done >train.jsonl
    sed 10q train.jsonl >ten.jsonl
    printf '%s\n' '{"context":"Is it?","choices":["yes","no"],"gold":0}' '{"context":"","choices":["a","b"],"gold":1}' >items.jsonl
    # example N: its text
    example() { printf '%s' "Question $1: $([ $(($1 % 2)) -eq 1 ] && echo yes || echo no) $1\\n\\n"; }
    # by_hand A,B C,D: the items with these examples written out, without an option
    by_hand() {
        printf '{"context":"%sIs it?","choices":["yes","no"],"gold":0}\n' "$(example "${1%,*}")$(example "${1#*,}")"
        printf '{"context":"%s","choices":["a","b"],"gold":1}\n' "$(example "${2%,*}")$(example "${2#*,}")"
    }
    # same FILE WORDS...: the log-likelihoods of FILE have the bits of those of items.jsonl with these words
    same() {
        "$MOEFW" eval gpt2 --tasks "$1" -t 1 -q --json | sed 's/.*"loglikelihoods"://' >hand
        "$MOEFW" eval gpt2 --tasks items.jsonl -t 1 -q --json "${@:2}" | sed 's/.*"loglikelihoods"://' >here
        cmp hand here
    }
    # r = random.Random(1234); r.sample(range(10), 2), r.sample(range(10), 2); then with the seed 7 and 30 for 10,
    # which Python draws in another way
    by_hand 7,1 0,1 >hand.jsonl
    same hand.jsonl --shots 2 --shots-from ten.jsonl
    by_hand 10,4 12,20 >hand.jsonl
    same hand.jsonl --shots 2 --shots-from train.jsonl --shots-draw 7
    by_hand 0,1 0,1 >hand.jsonl
    same hand.jsonl --shots 2 --shots-from train.jsonl --shots-draw first
    run same hand.jsonl --shots 2 --shots-from train.jsonl --shots-draw 7
    [ "$status" -ne 0 ]
    # from its own file: the item itself is no example
    printf '%s\n' '{"context":" b\n\nIs it?","choices":["yes","no"],"gold":0}' '{"context":"Is it? yes\n\n","choices":["a","b"],"gold":1}' >hand.jsonl
    same hand.jsonl --shots 1
    run "$MOEFW" eval gpt2 --tasks items.jsonl --shots 1 -t 1 -q
    [[ "$status" -eq 0 && "$output" == *"2 items, 1-shot"* ]]
    # an equal item of another file is skipped; texts longer than the window are counted
    sed 1q items.jsonl >>train.jsonl
    sed 1q items.jsonl >one.jsonl
    "$MOEFW" eval gpt2 --tasks one.jsonl --shots 11 --shots-from train.jsonl --shots-draw first -t 1 --json -q >out 2>said
    grep -q '"items":1,"shots":11,"cut":1,' out
    grep -q "one.jsonl: 1 of 1 items are longer than the model's window of 64 tokens" said
    "$MOEFW" eval gpt2 --tasks one.jsonl --shots 1 --shots-from one.jsonl -t 1 --json -q | sed 's/.*"loglikelihoods"://' >hand
    "$MOEFW" eval gpt2 --tasks one.jsonl -t 1 --json -q | sed 's/.*"loglikelihoods"://' | cmp - hand
}

@test "examples that cannot be given" {
    printf '%s\n' '{"context":"Is it?","choices":["yes","no"],"gold":0}' '{"context":"x","choices":["a","b"],"gold":1}' >items.jsonl
    refused() {
        run "$MOEFW" eval mixtral -t 1 -q "${@:3}"
        [ "$status" -eq "$1" ]
        [[ "$output" == *"$2"* ]]
    }
    refused 3 'items.jsonl: expected at least 3 items for 2 examples besides the item itself, found 2' --tasks items.jsonl --shots 2
    refused 3 'items.jsonl: expected at least 3 items for 3 examples, found 2' --tasks items.jsonl --shots 3 --shots-from items.jsonl
    refused 2 "--shots-draw: expected first, or a seed from 0 to 4294967295, found 'last'" --tasks items.jsonl --shots 1 --shots-draw last
    refused 2 '--shots wants --tasks' --shots 1
    refused 2 '--shots-from and --shots-draw want --shots' --tasks items.jsonl --shots-draw 1
    refused 2 'none.jsonl: there is no such file' --tasks items.jsonl --shots 1 --shots-from none.jsonl
}

@test "a signal ends it, and the shell sees which" {
    for i in {1..20000}; do echo '{"context":"a b c d e f g","choices":["one two three","x y z"],"gold":1}'; done >many.jsonl
    "$MOEFW" eval mixtral --tasks many.jsonl -t 1 -q >said 2>&1 &
    sleep 1
    kill -TERM $!
    status=0
    wait $! || status=$?
    [ "$status" -eq 143 ]
    [ ! -s said ]
}

@test "wrong files and options" {
    check() {
        printf '%s\n' '{"context":"a","choices":["b","c"],"gold":1}' "$1" >wrong.jsonl
        run "$MOEFW" eval mixtral --tasks wrong.jsonl -t 1 -q
        [ "$status" -eq 3 ]
        [[ "$output" == *"wrong.jsonl:2"*"$2"* ]]
    }
    check '{"choices":["b","c"],"gold":1}' 'expected "context"'
    check '{"context":"a","choices":["b"],"gold":0}' 'expected "choices", an array of 2 to 1000 texts'
    check '{"context":"a","choices":["b","c"],"gold":2}' 'expected "gold", the number of a choice'
    check '{"context":"a","choices":["b",""],"gold":0}' 'expected texts that are not empty'
    check 'no json' 'bad JSON'
    : >empty.jsonl
    run "$MOEFW" eval mixtral --tasks empty.jsonl -t 1 -q
    [[ "$status" -eq 3 && "$output" == *"empty.jsonl: expected items, found none"* ]]
    run "$MOEFW" eval mixtral --tasks empty.jsonl --data x -q
    [ "$status" -eq 2 ]
    run "$MOEFW" eval mixtral --tasks missing.jsonl -q
    [[ "$status" -eq 2 && "$output" == *"missing.jsonl: there is no such file"* ]]
    # a tokenizer without a token for the begin of texts
    "$MOEFW" train default -q -t 1 --steps 1 --set data.path='builtin:topics?bytes=40000' --set data.tokenizer=char --set model.layers=1 --set model.dim=8 \
        --set model.heads=1 --set train.batch=1 --out own
    printf '{"context":"","choices":["a","b"],"gold":1}\n' >none.jsonl
    run "$MOEFW" eval own --tasks none.jsonl -t 1 -q
    [[ "$status" -eq 3 && "$output" == *"item 1 has no context"* ]]
}
