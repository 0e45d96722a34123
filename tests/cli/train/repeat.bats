# The arithmetic and the tables of the scripts that repeat published results.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

library() {
    # shellcheck disable=SC2016
    sh -c '. "$srcdir/share/repeat/lib.sh"; "$@"' "$srcdir/share/repeat/x.sh" "$@"
}

# near FOUND WANTED: three digits
near() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a - b <= .001 * b && b - a <= .001 * b) }' || { echo "$1, not $2"; return 1; }
}

@test "p of Student's t: his hours of sleep, Darwin's maize, one degree of freedom, one more value" {
    near "$(printf '%s\n' -1.2 -2.4 -1.3 -1.3 0 -1 -1.8 -0.8 -4.6 -1.4 | library t_test)" .002833
    near "$(printf '%s\n' 49 -67 8 16 6 23 28 41 14 29 56 24 75 60 -48 | library t_test)" .049703
    # Cauchy's: 1 - 2 / pi atan 2
    near "$(printf '%s\n' 1 3 | library t_test)" .295167
    # (5 - 2) / sqrt(1 + 1 / 3) with two degrees of freedom: 1 - t / sqrt(2 + t^2)
    near "$(printf '%s\n' 1 2 3 | library t_test 5)" .121756
    [ "$(echo 7 | library t_test)" = - ]
    [ "$(printf '%s\n' 2 2 2 | library t_test)" = - ]
}

@test "half the width of an interval: from numbers, and from their standard deviation" {
    # 1 2 3 4: sd 1.1180 with squares divided by 4, t of 3 degrees 3.182; 3.182 * 1.29099 / 2
    [ "$(printf '%s\n' 1 2 3 4 | library interval)" = "2.5000 2.0540" ]
    near "$(library half_width 1.118034 4)" 2.054
    near "$(library half_width 0.5 26)" .2056
    [ "$(library half_width 0.5 1)" = - ]
}

@test "Holm's correction is monotone, at most 1, and counts tests only" {
    run bash -c 'printf "a\t0.01\nb\t0.04\nc\t0.03\nd\t0.005\nbase\t-\ne\t0.9\n" | sh -c ". \"$srcdir/share/repeat/lib.sh\"; holm" x'
    [ "$status" -eq 0 ]
    [ "$output" = "$(printf 'a\t0.01\t0.04\nb\t0.04\t0.09\nc\t0.03\t0.09\nd\t0.005\t0.025\nbase\t-\t-\ne\t0.9\t0.9')" ]
    [ "$(printf 'a\t.8\nb\t.7\n' | library holm | cut -f3 | sort -u)" = 1 ]
}

@test "readings of the capacity: a loss of each seed, its curve of reassignment, and the test of each reading" {
    "$MOEFW" data synth -q --out text --bytes 30000 >log 2>&1 || { cat log; return 1; }
    run sh "$srcdir/share/repeat/switch_readings.sh" --data text --steps 20 --seeds 1,2 --out o --threads 1
    [ "$status" -eq 0 ]
    cp o/table.md table
    [ "$(grep -cE '^\| (1|1.25) \| [12] \| [0-9.]+ \| [-+][0-9.]+ \| [0-9.]+ \| [-+][0-9.]+ \|( [0-9.]+){10} \|$' table)" -eq 4 ]
    [ "$(grep -cE '^\| (1|1.25) \| (validation|training) \| [0-9.]+ ± [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| (1.8781|2.0108) \| 0?\.[0-9]+ \|$' table)" -eq 4 ]
    # the difference in the table is that of the run's own metrics
    loss=$(grep '"split":"val"' o/runs/capacity1-2/metrics.jsonl | tail -1 | sed -E 's/.*"task_loss":([0-9.]+).*/\1/')
    grep -q "^| 1 | 2 | $(awk -v l="$loss" 'BEGIN { printf "%.4f | %+.4f", l, l - 1.8781 }') |" table
    # nothing is trained twice
    sh "$srcdir/share/repeat/switch_readings.sh" --data text --steps 20 --seeds 1,2 --out o --threads 1 >again 2>log
    cmp again table
    if grep -q 'val loss' log; then return 1; fi
}

@test "one change at a time: differences from the base, p, and p after Holm" {
    "$MOEFW" data synth -q --out text --bytes 30000 >log 2>&1 || { cat log; return 1; }
    sh "$srcdir/share/repeat/switch.sh" --data text --part 2 --steps 12 --seeds 1,2 --changes base,reassign,balance \
        --out o --threads 1 >table 2>log || { cat log; return 1; }
    grep -qE '^\| base \| [0-9.]+ ± [0-9.]+ \|  \|  \|  \| ' table
    grep -E '^\| \+ ' table >changes
    [ "$(grep -cE '^\| \+ [a-z ]+ \| [0-9.]+ ± [0-9.]+ \| [-+][0-9.]+ ± [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| ' changes)" -eq 2 ]
    # the smaller of two p doubles
    sort -t '|' -k 5n changes | awk -F '|' 'NR == 1 { exit !($6 / $5 > 1.9 && $6 / $5 < 2.1 || $6 == 1) }'
}

@test "the published conditions of Switch: chosen models, dropped assignments of both blocks" {
    "$MOEFW" data synth -q --out text --bytes 3000 >log 2>&1 || { cat log; return 1; }
    sh "$srcdir/share/repeat/switch.sh" --data text --part 1 --models switch --out o --threads 1 >table 2>log || { cat log; return 1; }
    [ "$(ls o/runs | grep -c 'done$')" -eq 1 ]
    if grep -q 'switch-plus' table; then return 1; fi
    # of a token, over both blocks: the mean over the lines of training
    mean=$(grep '"split":"train"' o/runs/switch-as-run/metrics.jsonl | sed 's/.*"dropped_per_token":\([0-9.]*\).*/\1/' |
        awk '{ s += $1 } END { printf "%.4f", s / NR }')
    [ "$mean" != 0.0000 ]
    grep -qE "^\| switch \| 1 \| 2.0496 \| [0-9.]+ \| 1.9760 \| [0-9.]+ \| .0308 \| $mean \|" table || { cat table; return 1; }
    run sh "$srcdir/share/repeat/switch.sh" --data text --models other
    [ "$status" -eq 2 ]
    [[ "$output" == *"--models: 'other' is none of switch, switch-plus"* ]]
}

@test "routers on an encoder: copies of its first layer give all routers one spread, and one that learns" {
    printf 'the old cook stirs\t1\nthe sea is calm\t0\nold soup\t1\n' >lines.tsv
    for _ in $(seq 80); do cut -f 1 lines.tsv; done >text
    "$MOEFW" train -q -t 1 --out encoder --data text --set model.task=mlm --set data.tokenizer=wordpiece --set data.val_path=text \
        --set model.dim=16 --set model.heads=2 --set model.layers=2 --set model.seq=128 --set model.moe_every=0 --set model.causal=no \
        --set model.ffn_activation=gelu --set model.ffn_hidden=24 --set train.batch=2 --set train.eval_context=0 --steps 2
    MOEFW="$MOEFW" run --separate-stderr sh "$srcdir/share/repeat/routers.sh" --encoder encoder --data lines.tsv --out o --seeds 2 \
        --dim 16 --batch 1 --repetitions 0 --learn 20 --learn-seeds 2 --threads 1
    [ "$status" -eq 0 ] || { echo "$output $stderr"; return 1; }
    # the table of the encoder: column 11 is the spread of drawn experts, column 12 that of copies
    grep -E '^\| (linear|attention|mlp|hybrid|mlp_hadamard|hash|self_supervised) \|' <<<"$output" | awk -F '|' 'NF > 14' >table
    [ "$(wc -l <table)" -eq 7 ] || { echo "$output"; return 1; }
    [ "$(cut -d '|' -f 11 table | sort -u | wc -l)" -eq 1 ] || { cat table; return 1; }
    [ "$(cut -d '|' -f 10 table | sort -u | wc -l)" -gt 3 ]
    [ "$(grep -cE '^\| (not trained|0.001|0.01) \| .6146 \| [0-9.]+ ± [0-9.]+ \| [0-9.]+ ± [0-9.]+ \| .5000 \| [0-9.]+ \| .5 \|' <<<"$output")" -eq 3 ] ||
        { echo "$output"; return 1; }
    untrained=$(sed -n 's/^| not trained | .6146 | \([0-9.]*\) .*/\1/p' <<<"$output")
    trained=$(sed -n 's/^| 0.01 | .6146 | \([0-9.]*\) .*/\1/p' <<<"$output")
    awk -v a="$untrained" -v b="$trained" 'BEGIN { exit !(a > 2.07 && b <= a && b > 0) }'
}
