# Evaluation and generation from a trained run.

setup_file() {
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" train -q --out run --set data.path='builtin:topics?bytes=60000' --set model.layers=2 \
        --set model.dim=32 --set model.seq=32 --set expert.hidden=32 --set train.batch=4 \
        --set train.steps=60 --set train.lr=0.003 --set train.eval_context=0
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

@test "the cache changes nothing: greedy text equals full recomputation" {
    a=$("$MOEFW" generate run -q -p "the " -n 24 --temp 0)
    b=$("$MOEFW" generate run -q -p "the " -n 24 --temp 0 --no-cache)
    [ "$a" = "$b" ]
    [ "${#a}" -ge 20 ]
}

@test "in bf16, without the f32 weights that nothing reads: cache, whole text and what looks inside" {
    a=$("$MOEFW" generate run -q --dtype bf16 -p "the " -n 24 --temp 0)
    b=$("$MOEFW" generate run -q --dtype bf16 -p "the " -n 24 --temp 0 --no-cache)
    [ "${#a}" -ge 20 ]
    [ "$a" = "$b" ]
    printf '/temp 0\n/tokens 8\nthe \n/route\n/new\nthe cook\n/exit\n' >lines
    run "$MOEFW" generate run -q --dtype bf16 -i <lines
    [ "$status" -eq 0 ]
    [[ "$output" != *"given back"* ]]
    [[ "$output" == *layer* ]]
}

@test "one seed one text, another seed another" {
    a=$("$MOEFW" generate run -q -p "the " -n 60 -s 1)
    b=$("$MOEFW" generate run -q -p "the " -n 60 -s 1)
    c=$("$MOEFW" generate run -q -p "the " -n 60 -s 2)
    [ "$a" = "$b" ]
    [ "$a" != "$c" ]
}

@test "the last word of a prompt ends before what follows" {
    "$MOEFW" train -q --out words --set data.path='builtin:topics?bytes=20000' \
        --set data.tokenizer=bpe --set model.layers=1 --set model.dim=16 --set model.seq=16 \
        --set expert.hidden=16 --set train.batch=2 --set train.steps=2 --set train.eval_context=0
    for prompt in "the old" "the old "; do
        run "$MOEFW" generate words -q -p "$prompt" -n 3 --temp 0
        [ "$status" -eq 0 ]
        [[ "$output" == "the old "[!\ ]* ]]
    done
}

@test "longer than the model's sequence" {
    run "$MOEFW" generate run -q -p "the old cook stirs the soup near the oven and the" -n 80
    [ "$status" -eq 0 ]
    [ "${#output}" -ge 100 ]
}

@test "a prompt from a file, and both at once refused" {
    printf 'the cook' >prompt.txt
    run "$MOEFW" generate run -q -f prompt.txt -n 4
    [ "$status" -eq 0 ]
    [[ "$output" == "the cook"* ]]
    run "$MOEFW" generate run -q -f prompt.txt -p x -n 4
    [ "$status" -eq 2 ]
}

@test "a conversation ends with /quit" {
    run bash -c 'printf "the cook\n/new\nthe sea\n/quit\n" | "$MOEFW" generate run -q -i -n 8 2>/dev/null'
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -ge 2 ]
}

@test "eval prints one object of the split; --data takes another text" {
    run "$MOEFW" eval run --json -q
    [ "$status" -eq 0 ]
    [[ "$output" == '{"step":60,"split":"val",'*'"ppl":'*'"moe":['* ]]
    printf 'the old cook stirs the soup near the oven. the old cook stirs soup.\n%.0s' {1..20} >other.txt
    run "$MOEFW" eval run --data other.txt
    [ "$status" -eq 0 ]
    [[ "$output" == *"nats per token"* ]]
}

# number KEY: of the object on stdin
number() {
    sed "s/.*\"$1\":\([-+.0-9e]*\).*/\1/"
}

@test "perplexity as the mean over batches, too; each expert's probabilities summed over the tokens" {
    one=$("$MOEFW" eval run --json -q --batches 1)
    two=$("$MOEFW" eval run --json -q --batches 2)
    # batches of as many tokens: the loss of the second follows from the means
    echo "$(number task_loss <<<"$one") $(number task_loss <<<"$two") $(number ppl <<<"$two") $(number ppl_batch_mean <<<"$two")" |
        awk '{ want = (exp($1) + exp(2 * $2 - $1)) / 2; d = $4 / want - 1
               if (d < -1e-4 || d > 1e-4 || $4 <= $3) { print "expected", want, "found", $4, "ppl", $3; exit 1 } }'
    [ "$(number ppl <<<"$one")" = "$(number ppl_batch_mean <<<"$one")" ]
    [[ "$("$MOEFW" eval run -q)" == *"perplexity "*" (mean of batches "* ]]
    # every token's probabilities sum to 1, in both layers
    "$MOEFW" eval run --json -q | grep -oE '"prob_sum":\[[^]]*' | sed 's/.*\[//' |
        awk -F, -v tokens="$("$MOEFW" eval run --json -q | number tokens)" '
            { s = 0; for (i = 1; i <= NF; i++) s += $i
              if (NF != 8 || s / tokens > 1.0005 || s / tokens < 0.9995) { print "sum", s, "of", tokens; exit 1 } }
            END { exit NR != 2 }'
    max=$(grep -oE '"max_prob":[.0-9]*' <<<"$two" | head -1 | cut -d: -f2)
    top=$(grep -oE '"top_prob":[.0-9]*' <<<"$two" | head -1 | cut -d: -f2)
    awk -v max="$max" -v top="$top" 'BEGIN { exit !(max > top && max > 0.125 && max <= 1) }'
}

@test "what is no run exits 3" {
    run "$MOEFW" generate . -p x
    [ "$status" -eq 3 ]
    run "$MOEFW" generate nowhere -p x
    [ "$status" -eq 3 ] || [ "$status" -eq 2 ]
}

@test "a conversation obeys: temperature, experts of each token, an unknown command lists all" {
    talk='printf "/experts\n/temp 0\nthe cook\n/nonsense\n/quit\n" | "$MOEFW" generate run -q -i -n 4'
    run bash -c "$talk 2>&1 >/dev/null"
    [ "$(grep -cE '^(> )*.?  +0: [0-7] [0-7]  1: [0-7] [0-7]$' <<<"$output")" -eq 4 ] || { echo "$output"; return 1; }
    [[ "$output" == *"/temp T"* ]]
    a=$(bash -c "$talk 2>/dev/null")
    b=$(bash -c "$talk 2>/dev/null")
    [ "$a" = "$b" ]
}
