# Presets of published systems: their sizes, and that each trains as documented.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# params PRESET VOCABULARY: prints "all active"
params() {
    "$MOEFW" config check "$1" --json --set model.vocab="$2" 2>/dev/null |
        sed -E 's/.*"params":([0-9]+),"params_active":([0-9]+).*/\1 \2/'
}

# tiny PRESET WORDS...: trains it for a few steps on the built-in text, as run
tiny() {
    preset=$1
    shift
    "$MOEFW" train "$preset" -q -t 1 --out run --set data.path='builtin:topics?bytes=8000' \
        --set data.tokenizer=byte --set train.batch=4 --set model.seq=16 --set train.steps=12 \
        --set train.log_every=3 --set train.eval_every=6 --set train.eval_batches=2 "$@"
}

# series SPLIT KEY: its values in run/metrics.jsonl, one per line
series() {
    grep "\"split\":\"$1\"" run/metrics.jsonl | sed -E "s/.*\"$2\":([-+0-9.e]+).*/\1/"
}

@test "every preset is a valid configuration" {
    for name in $("$MOEFW" config presets); do
        "$MOEFW" config check "$name" 2>/dev/null || { echo "$name"; return 1; }
    done
}

@test "switch has the published number of parameters" {
    [ "$(params switch 65)" = "307529 109001" ]
    [ "$(params switch-as-run 65)" = "307529 109001" ]
    [ "$(params switch-plus 65)" = "307529 109001" ]
    [ "$(params switch-plus-as-run 65)" = "158273 59009" ]
}

@test "lamoe has the published number of parameters" {
    for name in lamoe lamoe-as-run; do
        "$MOEFW" config check $name --json 2>/dev/null | grep -q '"params":134188608,"params_active":58691136,'
    done
    # and by module: four layers of 787,456 for attention, 8,208 for a router, 8 (2) experts
    # of 3,145,728
    "$MOEFW" config check lamoe 2>/dev/null >table
    while read -r module loaded inference mib; do
        grep -qE "^  $module +$loaded +$inference +$mib\$" table || { echo "$module"; cat table; return 1; }
    done <<'END'
embedding 15169024 15169024 57.87 +57.87
attention 3149824 3149824 12.02 +12.02
router 32832 32832 0.13 +0.13
experts 100663296 25165824 384.00 +96.00
norms 4608 4608 0.02 +0.02
head 15169024 15169024 57.87 +57.87
all 134188608 58691136 511.89 +223.89
END
    "$MOEFW" config check lamoe --json 2>/dev/null |
        grep -qF '{"module":"experts","loaded":100663296,"inference":25165824,"bytes_loaded":402653184,"bytes_inference":100663296}'
}

@test "switch drops assignments and counts them" {
    tiny switch --set moe.capacity_factor=0.5
    series train drop_rate | awk '$1 <= 0 { bad = 1 } END { exit bad || NR < 4 }'
    series train reassigned | awk '$1 != 0 { bad = 1 } END { exit bad }'
}

@test "switch-plus drops nothing, and counts reassigned assignments" {
    tiny switch-plus
    series train drop_rate | awk '$1 != 0 { bad = 1 } END { exit bad || NR < 4 }'
    series val drop_rate | awk '$1 != 0 { bad = 1 } END { exit bad || NR < 2 }'
    series train reassigned | awk '{ n += $1 } END { exit n == 0 }'
}

@test "switch-plus-as-run shares its layers' weights, and resumes to the same bits" {
    figures() { sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"; }
    tiny switch-plus-as-run
    mv run whole
    ! grep -q 'layers\.1\.router' "whole/ckpt/$(cat whole/ckpt/latest)/model.safetensors" || false
    run tiny switch-plus-as-run --set train.time_limit=0.0001
    [ "$status" -eq 75 ]
    "$MOEFW" train -q --resume run --set train.time_limit=0
    diff <(figures whole) <(figures run)
    # Loads differ between layers, and so do the selection biases that depend on them.
    rm -rf run
    tiny switch-plus-as-run --set controller.even.plugin=expert_bias --set controller.even.rate=0.01
    for layer in 0 1; do
        grep -q "layers\.$layer\.moe\.select_bias" "run/ckpt/$(cat run/ckpt/latest)/model.safetensors"
    done
}

@test "controller capacity changes the factor with a reason, and resumes to the same bits" {
    figures() { sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"; }
    for rule in demand target; do
        rm -rf run whole
        live=(--set controller.room.plugin=capacity --set controller.room.rule=$rule
            --set controller.room.window=4 --set controller.room.rate=0.1
            --set moe.capacity_factor=0.8)
        tiny switch "${live[@]}"
        mv run whole
        grep -q '"option":"moe.capacity_factor","from":0.8,.*"by":"controller.room","reason":".*[0-9]' whole/metrics.jsonl
        run tiny switch "${live[@]}" --set train.time_limit=0.0001
        [ "$status" -eq 75 ]
        "$MOEFW" train -q --resume run --set train.time_limit=0
        diff <(figures whole) <(figures run)
    done
}

# words: text, vocabulary and token files that lamoe's presets can read
words() {
    "$MOEFW" data synth -o text.txt --bytes 40000 >/dev/null
    "$MOEFW" tokenize train bpe text.txt --clean --eos --vocab-size 300 -o bpe.json >/dev/null
    "$MOEFW" tokenize encode bpe.json text.txt --clean --eos --bin train.bin >/dev/null
    head -c 9000 text.txt >val.txt
    "$MOEFW" tokenize encode bpe.json val.txt --clean --eos --bin val.bin >/dev/null
}

@test "lamoe-small learns, keeps its best checkpoint, and its cache changes no token" {
    words
    "$MOEFW" train lamoe-small -q -t 1 --out run --set model.layers=2 --set model.dim=32 \
        --set model.heads=4 --set expert.hidden=32 --set model.seq=32 --set train.batch=8 \
        --set train.steps=60 --set train.warmup=5 --set train.lr=0.01 --set train.eval_every=20 \
        --set train.eval_batches=4
    series val task_loss | awk 'NR == 1 { first = $1 } END { exit !(NR == 3 && $1 < first - 0.3) }'
    [ "$(series train_eval task_loss | wc -l)" -eq 3 ]
    [ "$(cat run/best/latest)" = "step-60" ]
    for temp in 0 1; do
        "$MOEFW" generate run -q -p "the" --temp $temp -n 40 >cached
        "$MOEFW" generate run -q -p "the" --temp $temp -n 40 --no-cache >again
        [ -s cached ]
        diff cached again
    done
    diff <("$MOEFW" generate run -q -p "the" -n 9) <("$MOEFW" generate run/best -q -p "the" -n 9)
}

@test "the script that repeats LaMoE's log: vocabulary, token files, two runs, a table of this model" {
    yes 'the old cook stirs the soup near the oven and the sea is calm' | head -300 >text
    for _ in 1 2; do
        MOEFW="$MOEFW" run "$srcdir/share/repeat/lamoe.sh" --train text --out out --preset lamoe --steps 20 --eval-batches 1 \
            --val-tokens 400 --threads 1 --set model.dim=8 --set model.heads=2 --set model.kv_heads=1 --set model.layers=1 \
            --set expert.hidden=8 --set model.seq=16 --set train.batch=2
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    done
    params=$(sed -E 's/.*"params":([0-9]+).*/\1/' out/runs/lamoe-20/manifest.json)
    grep -q "^lamoe: $params parameters (published: 134188608)" out/table.md || { cat out/table.md; return 1; }
    [ "$(grep -cE '^\| (0|10|20) \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \|' out/table.md)" -eq 3 ] || { cat out/table.md; return 1; }
    [ "$(ls out/runs | grep -c 'done$')" -eq 2 ]
    run "$srcdir/share/repeat/lamoe.sh" --train nowhere --out other
    [ "$status" -eq 3 ]
}

@test "LaMoE's long run: validation at each hundredth step, the best of them, and texts of both weights" {
    yes 'the old cook stirs the soup near the oven and the sea is calm' | head -300 >text
    MOEFW="$MOEFW" run "$srcdir/share/repeat/lamoe.sh" --train text --out out --preset lamoe --steps 200 --vocab-size 200 \
        --eval-batches 1 --val-tokens 400 --threads 1 --set model.dim=8 --set model.heads=2 --set model.kv_heads=1 \
        --set model.layers=1 --set expert.hidden=8 --set model.seq=16 --set train.batch=2
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ "$(grep -cE '^\| (100|200) \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \|$' out/table.md)" -eq 2 ] || { cat out/table.md; return 1; }
    least=$(grep '"split":"val"' out/runs/lamoe-200/metrics.jsonl | sed -E 's/.*"step":([0-9]+).*"loss":([0-9.]+),"task_loss.*/\2 \1/' | sort -n | head -n 1)
    grep -q "^The validation loss is lowest, $(printf %.4f "${least% *}"), at step ${least#* };" out/table.md || { cat out/table.md; return 1; }
    [ "$(grep -cE '^- (Science and Technology|Once, upon a time|Physics|String theory|Artificial)' out/table.md)" -eq 10 ]
    [ "$(ls out/runs | grep -c 'done$')" -eq 1 ]
}

@test "lamoe-as-run decodes from position 1 of the cache" {
    words
    "$MOEFW" train lamoe-as-run -q -t 1 --out run --set model.vocab=auto --set model.layers=1 \
        --set model.dim=16 --set expert.hidden=16 --set model.seq=16 --set train.batch=4 \
        --set train.steps=8 --set train.eval_every=8 --set train.eval_batches=2 --set train.lr=0.05
    "$MOEFW" generate run -q -p "the" --temp 0 -n 20 >shifted
    [ -s shifted ]
}

@test "tokenize --clean, --eos and --bin" {
    printf "Don't worry: it's 5%% off... We've\n\nCan\xe2\x80\x99t stop. they'd\tgo -- n't\n" >text
    "$MOEFW" tokenize encode byte text --clean >ids
    diff <("$MOEFW" tokenize decode byte ids) <(printf "Do not worry it is 5%% off. We have\nCan not stop. they would go not\n\n")
    "$MOEFW" tokenize train bpe text --clean --eos --vocab-size 40 -o bpe.json --json >made
    "$MOEFW" tokenize encode bpe.json text --clean --eos >ids
    eos=$(($(sed -E 's/.*"vocab":([0-9]+).*/\1/' made) - 1))
    [ "$(tr ' ' '\n' <ids | grep -cx $eos)" -eq 2 ]
    "$MOEFW" tokenize encode bpe.json text --clean --eos --bin file.bin --json >told
    [ "$(stat -c %s file.bin)" -eq $((2 * $(wc -w <ids))) ]
    grep -q "\"tokens\":$(wc -w <ids)" told
    [ "$(od -An -v -tu2 file.bin | tr -s ' \n' ' ' | sed 's/^ //;s/ $//')" = "$(cat ids)" ]
    run "$MOEFW" tokenize encode byte text --eos
    [ "$status" -eq 2 ]
}

# Two routers on two seeds, as compare leaves them, for the tables of all_routers.sh.
compared() {
    mkdir -p "$1"
    row() {
        printf '{"router":"%s","baseline":%s,"params":200,"params_active":100,"params_router":%s,"mean":%s,"ci95":[1.4,%s],"diff":%s,"diff_ci95":[%s,%s],"p":%s,"p_holm":%s,"verdict":"%s","load_cv":0.25,"runs":[' "$@"
        printf '{"seed":1,"dir":"%s/seed-1","bits_per_byte":2},{"seed":2,"dir":"%s/seed-2","bits_per_byte":3}]}' "$1" "$1"
    }
    { echo '{"seeds":2,"compared":1,"detectable_dz":46.2,"rows":['
      row linear true 10 1.5 1.6 0 0 0 null null baseline; echo ,
      row mlp false 20 1.25 1.5 -0.25 -0.5 -0.1 0.01 0.02 better
      echo '],"skipped":[{"router":"oracle","reason":"no labels"}]}'; } >"$1/comparison.json"
    for run in linear/seed-1 linear/seed-2 mlp/seed-1 mlp/seed-2; do
        mkdir -p "$1/$run"
        echo '{"step":2,"split":"val","tokens":4,"moe":[{"layer":0,"entropy":1.5,"top_prob":0.5,"load":[0.75,0.25],"count":[6,2]},{"layer":1,"entropy":0.5,"top_prob":0.25,"load":[0.5,0.5],"count":[2,2]}]}' >"$1/$run/metrics.jsonl"
        printf '0.5 0.01\n0.25 0.02\n' >"$1/$run/share.txt"
    done
}

@test "all_routers.sh: its tables of what compare, trace and bench have left" {
    cd "$BATS_TEST_TMPDIR"
    mkdir -p data/wikitext-2
    touch data/tinyshakespeare.txt data/wikitext-2/test.txt data/wikitext-2/valid.txt
    compared out/runs/char
    compared out/runs/bpe
    printf '1|linear|2\n1|mlp|3\n2|linear|2\n2|mlp|5\n3|linear|2\n3|mlp|4\n' >out/cost.txt
    run sh "$srcdir/share/repeat/all_routers.sh" --data data --out out --part table
    [ "$status" -eq 0 ]
    [ "$(grep -cF '| mlp | 1.2500 ± 0.2500 | 2.5000 ± 6.3530 | -0.2500 [-0.5000, -0.1000] | 0.010 | 0.020 | better | 2 |' out/table.md)" -eq 2 ]
    grep -qF '| linear | 1.5000 ± 0.1000 | 2.5000 ± 6.3530 |  |  |  | baseline | 2 |' out/table.md
    grep -qF '| mlp | 1.50 | 0.250 | 0.625 | 1.000 | 0.375 | 0.500 | 0.250 | 0.010 | 0.020 |' out/table.md
    grep -qF '| mlp | 20 | 200 | 100 | 2.00 | 1.50 to 2.50 |' out/table.md
    grep -qF '2 seeds and 1 comparisons show, in 4 of 5 such tables, a difference of 46.2 standard deviations' out/table.md
    ! grep -q oracle out/table.md || false
    # the best one first
    [ "$(grep -oE '^\| (mlp|linear) ' out/table.md | head -1)" = '| mlp ' ]
    run sh "$srcdir/share/repeat/all_routers.sh" --data nowhere
    [ "$status" -eq 3 ]
}
