# Figures and words that must say what they are: the final validation, the best one, units, shares of
# the peak, predictions of one machine by two ways, names and verdicts of comparisons.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

tiny=(--set model.dim=16 --set model.layers=1 --set model.heads=2 --set model.kv_heads=2 --set model.seq=16
    --set train.batch=4 --set train.eval_context=0 --set train.eval_every=5 --set train.eval_batches=2
    --set train.final_batches=9 --set train.log_every=5 --set moe.experts=4 --set expert.hidden=16
    --set report.enabled=no -t 1)

# number KEY LINE: the number of a key of a record
number() {
    sed -nE 's/.*[{,]"'"$1"'":([-0-9.e+]+).*/\1/p' <<<"$2"
}

@test "the final validation says what it took, and what compares with those before it" {
    "$MOEFW" train default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 20 --out r \
        --set log.tensorboard=yes 2>told >/dev/null
    grep '"split":"val"' r/metrics.jsonl >val
    [ "$(wc -l <val)" -eq 4 ]
    [ "$(grep -c '"batches":2,' val)" -eq 3 ]
    [ "$(grep -c '"batches":9,"final":true,' val)" -eq 1 ]
    last=$(tail -1 val)
    [ "$(number curve_batches "$last")" -eq 2 ]
    [ "$(number curve_tokens "$last")" -eq "$(number tokens "$(head -1 val)")" ]
    # the same numbers as an evaluation of two batches
    two=$("$MOEFW" eval r --batches 2 --json -t 1 -q)
    [ "$(number task_loss "$two")" = "$(number curve_task_loss "$last")" ]
    [ "$(number bits_per_byte "$two")" = "$(number curve_bits_per_byte "$last")" ]
    [ "$(number task_loss "$two")" != "$(number task_loss "$last")" ]
    # the best among those that compare, in the summary and in the list of runs
    best=$(while read -r line; do
        loss=$(number curve_task_loss "$line")
        echo "$(number step "$line") ${loss:-$(number task_loss "$line")}"
    done <val | sort -k2 -g | head -1)
    grep -q "best validation     step ${best% *}, loss $(printf %.4f "${best#* }") over the 2 batches of each" told
    [[ "$("$MOEFW" runs r --json)" == *"\"best_step\":${best% *},"* ]]
    # exports: `val` has what compares, `final` all batches
    "$MOEFW" export mlflow r -o ml >/dev/null
    [ "$(awk 'END { print $2 }' "$(find ml -path '*val/task_loss')")" = "$(number curve_task_loss "$last")" ]
    [ "$(awk 'END { print $2 }' "$(find ml -path '*final/task_loss')")" = "$(number task_loss "$last")" ]
    [ "$(find ml -name 'curve_*' | wc -l)" -eq 0 ]
    [ -d r/tensorboard/final ]
    "$MOEFW" export csv r -o t.csv
    head -1 t.csv | grep -q ',batches,.*,final,.*curve_task_loss'
}

@test "RUN/best is of validations that compare" {
    # small steps on: each is better on the same two batches, and the last has a higher loss on all of nine
    "$MOEFW" train default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 20 --out first -q \
        --set train.schedule=constant --set train.lr=0.03 >/dev/null
    "$MOEFW" train default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 4 --out r -q \
        --set train.from=first --set train.keep_best=yes --set train.eval_every=1 --set train.lr=0.001 \
        --set train.warmup=0 --set train.schedule=constant >/dev/null
    third=$(number task_loss "$(grep '"step":3,"split":"val"' r/metrics.jsonl)")
    last=$(grep '"final":true' r/metrics.jsonl)
    awk -v a="$(number curve_task_loss "$last")" -v b="$third" -v c="$(number task_loss "$last")" 'BEGIN { exit !(a < b && b < c) }'
    grep '"split":"val"' r/metrics.jsonl >val
    best=$(while read -r line; do
        loss=$(number curve_task_loss "$line")
        echo "$(number step "$line") ${loss:-$(number task_loss "$line")}"
    done <val | sort -k2 -g | head -1)
    [ "${best% *}" -eq 4 ]
    [ "$(find r/best -name 'step-*' | sed 's/.*step-//')" = 4 ]
}

@test "a loss of tokens is one of tokens, with its tokenizer; NMI is a share of what is possible" {
    "$MOEFW" data synth --bytes 40000 -o text.txt >/dev/null
    "$MOEFW" tokenize train bpe_bytes text.txt --vocab-size 300 -o tok.json >/dev/null
    "$MOEFW" train default "${tiny[@]}" --data text.txt --set data.tokenizer=tok.json --steps 10 --out t 2>told >/dev/null
    grep -qE '^validation loss     [0-9.]+ nats/token' told
    grep -qE 'tokens of a tokenizer [a-z_]+ of 300$' told
    ! grep -q 'nats/bpe' told || false
    "$MOEFW" train default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 10 --out b 2>told >/dev/null
    grep -qE '^validation loss     [0-9.]+ nats/byte' told
    grep -qE 'layer 0  [0-9.]+  [0-9.e-]+ % of the possible; random 0\.' told
    ! grep -q ' x)' told || false
}

@test "drop_rate has one meaning: a share of the assignments of a layer" {
    "$MOEFW" train default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 5 --out r -q \
        --set moe.capacity_factor=0.5 --set moe.top_k=2 >/dev/null
    line=$(tail -1 r/metrics.jsonl)
    [ "$(grep -o '"drop_rate"' <<<"$line" | wc -l)" -eq 1 ] # one layer
    # of two assignments a token
    awk -v a="$(number dropped_per_token "$line")" -v b="$(number drop_rate "$line")" \
        'BEGIN { exit !(a > 0 && b > 0 && a / b > 1.99 && a / b < 2.01) }'
}

@test "a share of the peak is one of the peak of that type, and never above 1" {
    for dtype in f32 bf16; do
        json=$("$MOEFW" bench layer --dim 256 --hidden 512 --experts 4 --tokens 512 --dtype $dtype --repetitions 3 -t 1 --json)
        awk -v f="$(number fraction_of_peak "$json")" 'BEGIN { exit !(f > 0 && f <= 1) }'
        [[ "$json" == *'"peak":"'*" in $dtype\""* ]]
    done
}

@test "one H100 takes the same time by --device and by --cluster; layouts say how they are trained" {
    sed -e 's/^ranks = .*/ranks = 1/' -e 's/^per_node = .*/per_node = 1/' "$srcdir/share/cluster/h100.ini" >one.ini
    for dtype in f32 bf16; do
        ms=$(number ms "$("$MOEFW" plan default --device h100 --set train.dtype=$dtype --json | sed 's/"kernels".*//')")
        json=$("$MOEFW" plan default --cluster one.ini --set train.dtype=$dtype --json)
        awk -v ms="$ms" -v s="$(number step_s "${json%%\"layouts\"*}")" 'BEGIN { exit !(ms > 0 && s > 0 && ms / (1e3 * s) > .999 && ms / (1e3 * s) < 1.001) }'
        [[ "$json" == *'"time_of":"kernels"'* ]]
    done
    # a GPU that is not known: why the times are longer
    sed -i 's/^tflops = .*/tflops = 500/' one.ini
    run -0 "$MOEFW" plan default --cluster one.ini
    [[ "$output" == *"fitted to published runs of other programs"*"plan --device says less"* ]]
    # with another parallel.expert moefw trains it
    run -0 "$MOEFW" plan default --cluster "$srcdir/share/cluster/measured.ini" --set train.accumulate=8
    grep -qE '^ +8 +2 +1 +1 .* moefw train, parallel.expert = 2$' <<<"$output"
    grep -qE '^ +8 +1 +1 +1 .* moefw train$' <<<"$output"
    grep -qE '^ +4 +2 +2 +1 .* not built$' <<<"$output"
    "$MOEFW" plan default --cluster "$srcdir/share/cluster/measured.ini" --set train.accumulate=8 --set parallel.expert=2 |
        grep -qE '^ +8 +2 +1 +1 .* moefw train$'
}

@test "compare: plugins' names, a table of 80 columns, no verdict of two seeds" {
    cp "$builddir/plugins/routers/sigmoid_bias.so" mine.so
    "$MOEFW" --plugin ./mine.so compare default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 4 \
        --routers 'linear,./mine.so,mlp:hidden=8+activation=silu+input_norm=none' --seeds 2 --out c -q >table
    [ "$(awk 'length > 80' table | grep -vc '^ *[0-9]* = ')" -eq 0 ]
    grep -qE '^ +[1-3] sigmoid_bias ' table
    grep -qE '^ +[1-3] = \./mine\.so$' table
    grep -qE '^ +[1-3] = mlp:hidden=8\+activation=silu\+input_norm=none$' table
    ! grep -qE ' (better|worse)( |$)' table || false
    grep -q 'With fewer than 3 seeds nothing can be shown' table
    grep -q '"router":"./mine.so","baseline":[a-z]*,"name":"sigmoid_bias"' c/comparison.json
    # differences of equal size have p = 0 at two seeds
    ! grep -qE '"verdict":"(better|worse)"' c/comparison.json || false
    # two routers of one name are told apart
    cp mine.so other.so
    "$MOEFW" --plugin ./mine.so compare default "${tiny[@]}" --set data.path='builtin:topics?bytes=40000' --steps 2 \
        --routers './mine.so,sigmoid_bias' --seeds 1 --out d -q >table
    grep -qE '^ +[12] sigmoid_bias \(\./mine' table
    grep -qE '^ +[12] sigmoid_bias  ' table
}
