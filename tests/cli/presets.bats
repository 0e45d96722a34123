# Presets of published systems: their sizes, and that each trains as it says.

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

# series SPLIT KEY: its values in run/metrics.jsonl, one a line
series() {
    grep "\"split\":\"$1\"" run/metrics.jsonl | sed -E "s/.*\"$2\":([-+0-9.e]+).*/\1/"
}

@test "every preset is a right configuration" {
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

@test "switch drops tokens and says how many" {
    tiny switch --set moe.capacity_factor=0.5
    series train drop_rate | awk '$1 <= 0 { bad = 1 } END { exit bad || NR < 4 }'
    series train reassigned | awk '$1 != 0 { bad = 1 } END { exit bad }'
}

@test "switch-plus drops nothing, and counts what it moved" {
    tiny switch-plus
    series train drop_rate | awk '$1 != 0 { bad = 1 } END { exit bad || NR < 4 }'
    series val drop_rate | awk '$1 != 0 { bad = 1 } END { exit bad || NR < 2 }'
    series train reassigned | awk '{ n += $1 } END { exit n == 0 }'
}

@test "switch-plus-as-run shares its layers' weights, and goes on to the same bits" {
    figures() { sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"; }
    tiny switch-plus-as-run
    mv run whole
    ! grep -q 'layers\.1\.router' "whole/ckpt/$(cat whole/ckpt/latest)/model.safetensors"
    run tiny switch-plus-as-run --set train.time_limit=0.0001
    [ "$status" -eq 75 ]
    "$MOEFW" train -q --resume run --set train.time_limit=0
    diff <(figures whole) <(figures run)
}
