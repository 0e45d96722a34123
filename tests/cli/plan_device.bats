# plan --device: a training step counted by kernel, and its time on a GPU predicted.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/emulator.bash"

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

tiny="--set model.dim=64 --set model.layers=1 --set model.heads=2 --set model.seq=8 --set train.batch=2
    --set moe.experts=4 --set data.path=builtin:topics?bytes=20000 --set data.tokenizer=byte
    --set train.recompute=none --set train.log_every=100 --set train.eval_every=0
    --set train.eval_context=0 --set train.eval_batches=1 --set train.final_batches=1 --set report.enabled=no"

# planned CONFIG WORDS...: the JSON of a prediction
planned() {
    json=$("$MOEFW" plan "$@" --device h100 --json)
}

# of KEY [KERNEL]: a number of the whole step, or of one kernel
of() {
    local text=${json%%'"kernels"'*}
    [ -z "$2" ] || text=$(grep -o "{\"kernel\":\"$2\"[^}]*}" <<<"$json")
    sed -nE "s/.*\"$1\":([-0-9.e+]*).*/\1/p" <<<"$text"
}

@test "operations are those that the graph counts, and more with recomputation" {
    for config in default "$srcdir/bench/gpt2.ini" "$srcdir/bench/lamoe.ini"; do
        for dtype in f32 bf16; do
            planned "$config" --set train.recompute=none --set train.dtype=$dtype
            [ "$(of flops)" = "$(of graph_flops)" ]
            awk -v n="$(of flops)" 'BEGIN { exit !(n > 1e9) }'
        done
    done
    planned default --set train.recompute=none --set train.accumulate=3
    three=$(of flops)
    planned default --set train.recompute=none
    awk -v a="$(of flops)" -v b="$three" 'BEGIN { exit !(3 * a == b) }'
    planned default --set train.recompute=block
    awk -v a="$(of flops)" -v b="$(of graph_flops)" 'BEGIN { exit !(a > b) }'
}

@test "bytes of the optimizer, norms, casts are those of their formulas" {
    # shellcheck disable=SC2086
    params=$("$MOEFW" config check default $tiny --json | sed -nE 's/.*"params":([0-9]*).*/\1/p')
    [ "$params" -gt 10000 ]
    # shellcheck disable=SC2086
    planned default $tiny
    [ "$(of bytes adamw)" -ge $((28 * params)) ] # parameters, gradients, two moments, read and written
    [ "$(of bytes adamw)" -le $((28 * params + 28 * params / 100)) ]
    [ "$(of bytes sumsq)" -eq $(($(of bytes adamw) / 7)) ]
    [ "$(of bytes norm)" -eq $((3 * (16 * 64 * 8 + 4 * 64))) ] # 16 tokens, width 64, three norms
    [ "$(of bytes embedding)" -eq $((16 * (8 * 64 + 4) * $(of calls embedding))) ]
    f32=$(of bytes adamw)
    # shellcheck disable=SC2086
    planned default $tiny --set train.optimizer=lion # one moment
    [ "$(of bytes lion)" -eq $((f32 / 28 * 20)) ]
    [ -z "$(of bytes adamw)" ]
    # shellcheck disable=SC2086
    planned default $tiny --set train.dtype=bf16
    [ "$(of bytes adamw)" -eq $((f32 / 28 * 30)) ] # and the copies in bf16
}

@test "time: the sum of its rows, more than bytes and operations at the peaks; MFU follows from it" {
    planned "$srcdir/bench/lamoe.ini" --set train.dtype=bf16
    rows=$(grep -o '{"kernel"[^}]*}' <<<"$json" | sed -nE 's/.*"ms":([-0-9.e+]*).*/\1/p' | awk '{ s += $1 } END { print s }')
    awk -v ms="$(of ms)" -v rows="$rows" -v flops="$(of flops)" -v bytes="$(of bytes)" -v mfu="$(of mfu_counted)" 'BEGIN {
        exit !(rows / ms > .999 && rows / ms < 1.001 && ms > 1e3 * bytes / 3.35e12 && ms > 1e3 * flops / 989e12 &&
            mfu / (flops / (ms * 989e9)) > .999 && mfu / (flops / (ms * 989e9)) < 1.001) }'
    run -0 "$MOEFW" plan "$srcdir/bench/lamoe.ini" --device h100
    [[ "$output" == *"H100 SXM, f32:"*"predicted by formulas"*"MFU"*"GFLOP"*"adamw"*"all "* ]]
}

# bound KEY MOST GOAL: fails if the number is above MOST, and if MOST can be lowered by more than 2 % of it
bound() {
    echo "$1: $(of "$1"), at most $2; goal $3"
    awk -v n="$(of "$1")" -v most="$2" 'BEGIN { exit !(n > 0 && n <= most && n >= .98 * most) }'
}

# token_bound MOST GOAL: the same for the launches of a token
token_bound() {
    local text=${json##*'"token":'}
    local n
    n=$(sed -nE 's/.*"launches":([0-9]*).*/\1/p' <<<"$text")
    echo "launches a token: $n, at most $1; goal $2"
    [ "$n" -gt 0 ]
    [ "$n" -le "$1" ]
    [ $((100 * n)) -ge $((98 * $1)) ]
}

@test "bytes and launches of a step and of a token are within their bounds" {
    planned "$srcdir/bench/gpt2.ini" --set train.dtype=bf16 --set train.batch=16 --set model.seq=1024
    bound bytes 53.82e9 54e9
    bound launches 383 390
    planned "$srcdir/bench/lamoe.ini" --set train.dtype=bf16 --set train.batch=32
    bound bytes 19.37e9 19.5e9
    bound launches 413 420
    token_bound 31 34
    # 7 G parameters, 64 experts of which a token uses 8
    planned default --set train.dtype=bf16 --set train.batch=1 --set model.dim=2048 --set model.layers=16 \
        --set model.heads=16 --set model.seq=1024 --set model.vocab=50304 --set model.rope_half=yes \
        --set moe.experts=64 --set moe.top_k=8 --set router.plugin=linear --set expert.plugin=swiglu \
        --set expert.hidden=1024
    token_bound 103 130
}

@test "a token: weights that it uses and the cache, no more; none where a text is not generated" {
    # shellcheck disable=SC2086
    planned default $tiny --set model.seq=8
    [[ "$json" == *'"token":{'* ]]
    few=$(sed -nE 's/.*"bytes":([-0-9.e+]*).*/\1/p' <<<"${json##*'"token":'}")
    # shellcheck disable=SC2086
    planned default $tiny --set model.seq=8 --set moe.experts=64
    many=$(sed -nE 's/.*"bytes":([-0-9.e+]*).*/\1/p' <<<"${json##*'"token":'}")
    # 64 experts and not 4: more rows of the router and numbers of it, but the same experts
    awk -v few="$few" -v many="$many" -v router=$((4 * 60 * (64 + 40))) \
        'BEGIN { exit !(many >= few && many <= few + router) }'
    # shellcheck disable=SC2086
    run -0 "$MOEFW" plan default $tiny --device h100
    [[ "${lines[-1]}" == "a token that is generated with a cache of 8: "*" launches, "*" MB, "*" ms" ]]
    # shellcheck disable=SC2086
    planned default $tiny --set model.task=mlm
    [[ "$json" != *'"token"'* ]]
}

# launched WORDS...: sets counted to what a step launches on the library that stands for CUDA
launched() {
    local steps n
    counted=0
    for steps in 8 3; do # what five steps launch, without a recording
        rm -rf run
        # shellcheck disable=SC2086
        MOEFW_FAKE_STATS=1 MOEFW_PLUGIN_PATH=$builddir/tests/cuda/fake run -0 "$MOEFW" train default $tiny "$@" \
            --steps $steps -q --out run --set train.device=cuda --set device.record=no
        n=$(sed -nE 's/^fake runtime: (kernels|gemms of cuBLASLt) //p' <<<"$output" | awk '{ n += $1 } END { print n }')
        counted=$((counted == 0 ? n : (counted - n) / 5))
    done
}

@test "launches are those of the library that stands for CUDA" {
    why=$(lacking)
    [ -z "$why" ] || skip "$why"
    made fake-cuda
    launched
    # shellcheck disable=SC2086
    planned default $tiny
    echo "$(of launches) predicted, $counted launched"
    [ "$counted" -gt 100 ]
    off=$(($(of launches) - counted))
    [ $((100 * off)) -le $((3 * counted)) ]
    [ $((-100 * off)) -le $((3 * counted)) ]
    # a vocabulary that is no multiple of 8: each of the three gemms of a head in bf16 is two
    words=(--set train.dtype=bf16 --set model.vocab=2048)
    launched "${words[@]}"
    even=$counted
    # shellcheck disable=SC2086
    planned default $tiny "${words[@]}"
    planned_even=$(of launches)
    words[3]=model.vocab=2051
    launched "${words[@]}"
    # shellcheck disable=SC2086
    planned default $tiny "${words[@]}"
    echo "$((counted - even)) more launched, $(($(of launches) - planned_even)) predicted"
    [ $((counted - even)) -eq 3 ]
    [ $(($(of launches) - planned_even)) -eq 3 ]
    # 1,024 rows of a head: one chunk on a GPU, two on a CPU, of at least five launches each
    words=(--set train.dtype=bf16 --set model.vocab=2048 --set train.batch=128)
    launched "${words[@]}"
    # shellcheck disable=SC2086
    planned default $tiny "${words[@]}"
    echo "$(of launches) predicted, $counted launched"
    [ $(($(of launches) - counted)) -le 2 ]
    [ $((counted - $(of launches))) -le 2 ]
}

@test "an op of a plugin without code for a device runs on the host, in an unknown time" {
    # shellcheck disable=SC2086
    run -0 --separate-stderr "$MOEFW" plan default $tiny --device h100 --json --set router.plugin=hash
    [[ "$output" == *'"hosted":1,'* ]]
    [ "$stderr" = "moefw: warning: 1 op of plugins runs on the host, in an unknown time" ]
}

@test "bad arguments: one message, exit status 2" {
    run -2 "$MOEFW" plan default --device h1000
    [[ "$output" == *"--device=h1000: no figures are known of this device; expected h100"* ]]
    run -2 "$MOEFW" plan default --device h100 --cluster c.ini
    [[ "$output" == *"--device is for one GPU"* ]]
    run -2 "$MOEFW" plan default --device h100 --ranks 2
    [[ "$output" == *"--device is for one GPU"* ]]
    run -2 "$MOEFW" plan default --device h100 --set train.optimizer=muon
    [[ "$output" == *"expected train.optimizer adamw, adam or lion"* ]]
    run -2 "$MOEFW" plan lamoe --device h100
    [[ "$output" == *"the data of the configuration cannot be read"* ]]
    run -2 "$MOEFW" plan default
    [[ "$output" == *"expected --cluster FILE"*"--device h100"* ]]
}
