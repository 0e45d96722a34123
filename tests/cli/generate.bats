# Evaluation and generation from a trained run.

bats_require_minimum_version 1.5.0

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

@test "in bf16, without unused f32 weights: cache, whole text, routing and gates" {
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

@test "one seed gives one text, another seed another text" {
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

# field KEY: the first number under that key in the JSON on standard input
field() {
    grep -o "\"$1\":[-0-9.e]*" | head -1 | sed 's/.*://'
}

@test "samples: consecutive seeds, each with the text of its seed" {
    run "$MOEFW" generate run -q -p "the " -n 30 -s 5 --samples 3
    [ "$status" -eq 0 ]
    [ "$(grep -c '^\[seed [567]\]$' <<<"$output")" -eq 3 ]
    for seed in 5 6 7; do
        one=$("$MOEFW" generate run -q -p "the " -n 30 -s $seed)
        [[ "$output" == *"[seed $seed]"$'\n'"$one"* ]]
    done
    json=$("$MOEFW" generate run -q -p "the " -n 30 -s 5 --samples 2 --json)
    [[ "$json" == '{"run":"run","step":60,"max_tokens":30,"temperature":0.8,"top_k":40,'*'"prompt":"the ","samples":[{"seed":5,"text":"'*'"tokens":30},{"seed":6,'*'}]}' ]]
    [[ "$json" != *quality* ]]
}

@test "quality: a repetitive text, and one without repetition" {
    yes 'the old cook ' | head -40 | tr -d '\n' >loop.txt
    "$MOEFW" train -q --out loop --set data.path=loop.txt --set model.layers=1 --set model.dim=32 --set model.seq=16 \
        --set model.moe_every=0 --set train.batch=8 --set train.steps=80 --set train.lr=0.03 --set train.eval_context=0
    "$MOEFW" generate loop -q -p "the old cook " -n 130 --temp 0 --quality --json >loop.json
    [[ "$(<loop.json)" == *'"text":"the old cook the old cook'* ]]
    # 30 words: 3 different ones, and 3 different n-grams of every length
    [ "$(field words <loop.json)" -eq 30 ]
    awk -v r2="$(field rep_2 <loop.json)" -v r4="$(field rep_4 <loop.json)" -v d1="$(field distinct_1 <loop.json)" \
        -v again="$(field again <loop.json)" -v c="$(field coherence <loop.json)" \
        'function same(a, b) { return a - b < 1e-9 && b - a < 1e-9 }
            BEGIN { exit !(same(r2, 1 - 3 / 29) && same(r4, 1 - 3 / 27) && same(d1, 0.1) && same(again, 27 / 29) && c < 0 && c > -0.2) }'
    # with another run: each judges the other's text, and gives its own a higher likelihood
    "$MOEFW" generate run -q -p "the old cook " -n 60 --samples 2 --quality --baseline loop --json >both.json
    awk -v a="$(field coherence_byte <both.json)" -v b="$(field other_coherence_byte <both.json)" 'BEGIN { exit !(a > b) }'
    [ "$(grep -o '"other_coherence_byte"' both.json | wc -l)" -eq 2 ]
    run "$MOEFW" generate run -q -p "the old cook " -n 60 --quality --baseline loop
    [ "$(grep -c '^\[this run\]$\|^\[loop\]$' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^\[loop\] repetition: rep-2 0\.[0-9]*, ' <<<"$output")" -eq 1 ]
    [ "$(grep -c '^\[this run\] coherence: -[0-9.]* nats/token, -[0-9.]* nats/byte; by loop -[0-9.]*, -[0-9.]*$' <<<"$output")" -eq 1 ]
}

@test "quality of nothing: dashes, and null" {
    run "$MOEFW" generate run -q -p "the " -n 0 --quality
    [ "$status" -eq 0 ]
    [[ "$output" == *"repetition: rep-2 -, rep-3 -, rep-4 -, diversity -, again -, distinct-1 -, distinct-2 - (0 words in 1 texts)"* ]]
    [[ "$output" == *"coherence: - nats/token, - nats/byte" ]]
    [[ "$("$MOEFW" generate run -q -p "the " -n 0 --quality --json)" == *'"words":0,"rep_1":null,'*'"coherence":null,'* ]]
    run "$MOEFW" generate run -q -p "" --json
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: the prompt is empty"* ]]
}

@test "quality: a run that cannot encode the other's text does not judge it" {
    printf 'the old cook %.0s' {1..40} >plain.txt
    "$MOEFW" train -q --out chars --set data.path=plain.txt --set data.tokenizer=char --set model.layers=1 \
        --set model.dim=16 --set model.seq=16 --set train.batch=4 --set train.steps=2 --set train.eval_context=0
    run "$MOEFW" generate run -q -p "the old cook" -n 60 --temp 9 --top-k 0 --top-p 1 --quality --baseline chars --json
    [ "$status" -eq 0 ]
    [[ "$output" == *"a text is not judged by the other run: "* ]]
    [ "$(grep -o '"other_coherence":null' <<<"$output" | wc -l)" -eq 2 ] # of the sample, and of all samples
    [ "$(grep -o '"other_coherence":-' <<<"$output" | wc -l)" -eq 2 ] # the generated text is judged
}

@test "options may have underscores; a conversation refuses those for single texts" {
    [ "$("$MOEFW" generate run -q -p "the " -n 9 --top_k 1)" = "$("$MOEFW" generate run -q -p "the " -n 9 --top-k=1)" ]
    "$MOEFW" generate run -q -p "the " -n 2 --repeat_pen 1.5 # an abbreviated option
    "$MOEFW" config show --train_file here.txt | grep -q '^path = .*here.txt$' # an old name of --data
    run "$MOEFW" generate run --to_k 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown option '--to_k'; did you mean '--top-k'?"* ]]
    for more in --json --quality --samples=2 --prompt=x; do
        run "$MOEFW" generate run -i $more </dev/null
        [ "$status" -eq 2 ]
        [[ "$output" == *"-i is a conversation"*"no ${more%%=*} with it"* ]]
    done
    run "$MOEFW" generate run -q -p x --baseline nowhere
    [ "$status" -eq 3 ]
    run "$MOEFW" generate run -q --samples 0
    [ "$status" -eq 2 ]
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

@test "a conversation shows a prompt, which -q shortens, and ends with exit" {
    printf 'the cook\n/temp 0\nthe sea\nexit\nthe end\n' >lines
    "$MOEFW" generate run -i -n 8 <lines >out 2>err
    [ "$(grep -o 'Prompt: ' err | wc -l)" -eq 4 ]
    [ "$(grep -c 'Generating Text \.\.\.\.$' err)" -eq 2 ]
    [ "$(grep -c '^Model:$' err)" -eq 2 ]
    [ "$(wc -l <out)" -ge 2 ]
    "$MOEFW" generate run -i -q -n 8 <lines >quiet 2>err
    cmp out quiet
    ! grep -qE 'User|Generating|Model' err || false
}

@test "prompts are cleaned if the training texts were; --temperature is --temp" {
    printf 'do not stop the sea is calm.\n%.0s' 1 2 3 4 5 6 7 8 >text
    small=(--data text --set data.tokenizer=char --set model.layers=1 --set model.dim=16 --set model.seq=8
        --set expert.hidden=16 --set train.batch=2 --steps 2 --set train.eval_context=0)
    "$MOEFW" train -q --out plain "${small[@]}"
    "$MOEFW" train -q --out cleaned "${small[@]}" --set data.clean=yes
    run "$MOEFW" generate plain -q -p "don't, stop!" -n 4
    [ "$status" -eq 3 ]
    [[ "$output" == *"the prompt: byte"* ]]
    a=$("$MOEFW" generate cleaned -q -p "don't, stop!" -n 4 --temp 0)
    b=$("$MOEFW" generate cleaned -q -p "do not stop" -n 4 --temperature 0)
    [ "${a#"don't, stop!"}" = "${b#"do not stop"}" ]
    # generated text is judged together with the text that was read
    a=$("$MOEFW" generate cleaned -q -p "don't, stop!" -n 4 --quality --json | field coherence)
    b=$("$MOEFW" generate cleaned -q -p "do not stop" -n 4 --quality --json | field coherence)
    [ -n "$a" ]
    [ "$a" = "$b" ]
}

@test "a conversation ends with /quit" {
    run bash -c 'printf "the cook\n/new\nthe sea\n/quit\n" | "$MOEFW" generate run -q -i -n 8 2>/dev/null'
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -ge 2 ]
}

@test "eval prints one object for the split; --data uses another text" {
    run "$MOEFW" eval run --json -q
    [ "$status" -eq 0 ]
    [[ "$output" == '{"step":60,"split":"val",'*'"ppl":'*'"moe":['* ]]
    printf 'the old cook stirs the soup near the oven. the old cook stirs soup.\n%.0s' {1..20} >other.txt
    run "$MOEFW" eval run --data other.txt
    [ "$status" -eq 0 ]
    [[ "$output" == *"nats/token"* ]]
}

# number KEY: of the object on stdin
number() {
    sed "s/.*\"$1\":\([-+.0-9e]*\).*/\1/"
}

@test "perplexity as the mean over batches, too; each expert's probabilities summed over the tokens" {
    one=$("$MOEFW" eval run --json -q --batches 1)
    two=$("$MOEFW" eval run --json -q --batches 2)
    # batches of equal numbers of tokens: the second loss follows from the means
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

@test "options that a run's configuration overrides give a warning" {
    for verb in eval "generate -n 2" "bench infer --repetitions 1"; do
        # shellcheck disable=SC2086 # words
        run "$MOEFW" $verb run --set model.dim=8
        [ "$status" -eq 0 ]
        [[ "$output" == *"--set=model.dim=8 is ignored: run has its own configuration"* ]]
    done
    run "$MOEFW" eval run --data "$BATS_TEST_DIRNAME/generate.bats"
    [ "$status" -eq 0 ]
    [[ "$output" != *"is ignored"* ]]
}

@test "a folder that is not a run exits 3" {
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

@test "a conversation sets how words are drawn, refuses what is no such number, and lists what it obeys" {
    # the likeliest alone, whether by temperature, number or probability
    printf '/tokens 20\n/temp 0\nthe cook\n' | "$MOEFW" generate run -q -i 2>/dev/null >greedy
    for line in '/top-k 1' '/top-p 0'; do
        printf '/tokens 20\n/temp 1\n/top-k 0\n/top-p 1\n%s\nthe cook\n' "$line" | "$MOEFW" generate run -q -i 2>/dev/null | cmp - greedy
    done
    printf '/help\n/top-k -1\n/top-p 2\n/repeat-penalty 1.5\n/repeat-penalty 0\n/skip on\n' |
        "$MOEFW" generate run -q -i >listed 2>said
    [ "$(grep -c 'error: expected a number from 0 to 1e+09, found .-1.$' said)" -eq 1 ]
    [ "$(grep -c 'error: expected a number from 0 to 1, found .2.$' said)" -eq 1 ]
    [ "$(grep -c 'error: expected a number from 0.01 to 100, found .0.$' said)" -eq 1 ]
    [ "$(grep -c 'error: this model has no skips' said)" -eq 1 ]
    for command in help gates gate skip route experts baseline new tokens temp top-k top-p repeat-penalty exit; do
        [ "$(grep -cE "^/$command  *" listed)" -eq 1 ] || { echo "$command"; cat listed; return 1; }
    done
    # a line that is too long is refused as a whole, and the next one is read
    { head -c 70000 /dev/zero | tr '\0' x; printf '\n/nonsense\n'; } | "$MOEFW" generate run -q -i >out 2>said
    [ "$(grep -c 'error: ' said)" -eq 2 ]
    grep -q 'error: expected lines of at most 65534 bytes$' said
    grep -q "error: no command '/nonsense'" said
    [ ! -s out ]
}

@test "what a run's plugins and data are told with, eval and generate print once" {
    mkdir -p "$BATS_TEST_TMPDIR/moefw/plugins.d"
    printf '[plugon mine]\nkind = router\n' >"$BATS_TEST_TMPDIR/moefw/plugins.d/odd.ini"
    run --separate-stderr "$MOEFW" generate run -q -p "the " -n 1
    [ "$status" -eq 0 ]
    [ "$stderr" = "moefw: warning: $BATS_TEST_TMPDIR/moefw/plugins.d/odd.ini: [plugon mine] passed over: expected [plugin NAME]" ]
    rm -r "$BATS_TEST_TMPDIR/moefw"
    for i in 1 2 3 4 5 6; do echo '{"text": "the old cook stirs the soup near the oven"}'; done >lines.txt
    run --separate-stderr "$MOEFW" eval run --data lines.txt
    [ "$status" -eq 0 ]
    [ "$stderr" = "lines.txt holds JSON lines (data.format = text reads it as text)" ]
}

@test "on a terminal, lines are edited, and earlier ones come back" {
    command -v script >/dev/null || skip "no script"
    grep -q '^#define HAVE_EDIT 1' "$builddir/config.h" || skip "built without libedit"
    typed() {
        for keys in "$@" 'exit\n'; do
            sleep 0.5
            printf "$keys"
        done | TERM=xterm script -qec "'$MOEFW' generate run -i -n 1 -t 1" /dev/null
    }
    typed 'the first\n' '\033[A\n' 'abd\002\002X\n' >shown
    [ "$(grep -c 'the first' shown)" -eq 2 ] # typed, and called back by the arrow key
    grep -q 'Xbd' shown                      # inserted before the last two characters
    grep -q 'Prompt: ' shown
}
