# Tallies of plugins: the sums of a step have the same bits however its micro-batches are divided over
# ranks, on a device, after a resume, and with values that are computed again.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# own NAME OUT WORDS...: tests/plugins/third_party/NAME.c as OUT.so
own() {
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" "${@:3}" \
        -o "$2.so" "$srcdir/tests/plugins/third_party/$1.c" -lm
}

eight="--set train.accumulate=8"

@test "quantiles of 8 micro-batches: 8 x 1, 4 x 2, 2 x 4 and 1 x 8 on ranks" {
    ranks_setup
    # shellcheck disable=SC2086
    equal "2 4 8" default $eight --set router.plugin=quantile --set controller.b.plugin=quantile_bias
    more=(--set parallel.expert=2)
    # shellcheck disable=SC2086
    equal "2 4" default $eight --set router.plugin=quantile
}

@test "sums that round: the tree of the micro-batches, also with shared layers" {
    ranks_setup
    built kmeans
    # shellcheck disable=SC2086
    equal "2 3 8" default --plugin "$PWD/p/kmeans.so" $eight
    more=(--set parallel.expert=2)
    # shellcheck disable=SC2086
    equal "2" default --plugin "$PWD/p/kmeans.so" $eight
    more=()
    # shellcheck disable=SC2086
    equal "2" default --plugin "$PWD/p/kmeans.so" $eight --set model.share_layers=yes
}

@test "an adapter counts; an expert does, unless ranks share the experts" {
    ranks_setup
    own counted counted
    # shellcheck disable=SC2086
    equal "2" default $eight --set adapter.a.plugin="$PWD/counted.so"
    own counted counted -DEXPERT
    # shellcheck disable=SC2086
    equal "2" default $eight --plugin "$PWD/counted.so"
    # shellcheck disable=SC2086
    thin x default $eight --plugin "$PWD/counted.so" --set parallel.expert=2
    run ranks 2 "${words[@]}"
    refused 2 "layers.0.expert (plugin counted): tally 'rows': .*expected parallel.expert = 1"
}

@test "a resume, and values that the backward pass computes again, have the same bits" {
    thin one default --set router.plugin=quantile --set controller.b.plugin=quantile_bias
    "$MOEFW" "${words[@]}"
    thin block default --set router.plugin=quantile --set controller.b.plugin=quantile_bias
    "$MOEFW" "${words[@]}" --set train.recompute=block
    cmp one/ckpt/step-6/model.safetensors block/ckpt/step-6/model.safetensors
    rm -rf one/ckpt/step-6
    echo step-3 >one/ckpt/latest
    "$MOEFW" train one --resume -q -t 1
    cmp one/ckpt/step-6/model.safetensors block/ckpt/step-6/model.safetensors
}

@test "tallies of 1 and 8 KiB on the strict device, recorded and not" {
    strict=$builddir/tests/device
    [ -e "$strict/backend_strict.so" ] || make -s -C "$builddir" tests/device/backend_strict.so
    for bins in 32 256; do
        for device in cpu strict; do
            thin "$device$bins" default --set router.plugin=quantile --set moe.experts=8 --set router.bins=$bins
            MOEFW_STRICT_STATS=1 MOEFW_PLUGIN_PATH=$strict "$MOEFW" "${words[@]}" --set train.steps=12 \
                --device $device 2>log
        done
        cmp cpu$bins/ckpt/step-12/model.safetensors strict$bins/ckpt/step-12/model.safetensors
        grep -q ' [1-9][0-9]* replays$' log || { cat log; false; }
        thin "own$bins" default --set router.plugin=quantile --set moe.experts=8 --set router.bins=$bins \
            --set device.record=no
        MOEFW_PLUGIN_PATH=$strict "$MOEFW" "${words[@]}" --set train.steps=12 --device strict
        cmp "cpu$bins/ckpt/step-12/model.safetensors" "own$bins/ckpt/step-12/model.safetensors"
    done
}

@test "too many numbers are refused, with the name of the largest tally" {
    thin x default --set router.plugin=quantile --set moe.experts=1024 --set router.bins=8192
    run "$MOEFW" "${words[@]}" --set model.layers=3
    refused 2 'expected at most 16777216 numbers, found 25165824; the largest tally is /layers.2.router.required'
}

@test "balance in each micro-batch, sequence and step, on ranks" {
    ranks_setup
    for scope in sequence step; do
        # shellcheck disable=SC2086
        equal "2 8" default $eight --set regularizer.balance.scope=$scope
    done
}

@test "losses of tokens: their mean is that of the task, and experts have shares of it" {
    ranks_setup
    own token_loss tokens
    own token_loss experts -DCONTROLLER
    equal "2" default --set regularizer.t.plugin="$PWD/tokens.so" --set regularizer.t.weight=0.1 \
        --set controller.c.plugin="$PWD/experts.so"
    grep -o '"task_loss":[^,]*\|"t":[^,}]*' one/metrics.jsonl | paste -d' ' - - | sed 's/"[a-z_]*"://g' >both
    [ "$(wc -l <both)" -ge 6 ]
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-6 * $1) { print; bad = 1 } } END { exit bad }' both
    # a plugin that asks, with a weight of 0, changes no bit of the model; a head with a bias, heads of classes
    thin none default
    "$MOEFW" "${words[@]}"
    thin zero default --set regularizer.t.plugin="$PWD/tokens.so" --set regularizer.t.weight=0
    "$MOEFW" "${words[@]}"
    cmp none/ckpt/step-6/model.safetensors zero/ckpt/step-6/model.safetensors
    thin biased default --set regularizer.t.plugin="$PWD/tokens.so" --set model.head_bias=yes
    "$MOEFW" "${words[@]}"
    for i in $(seq 60); do printf 'a fine film %s\tpos\nso dull a plot %s\tneg\n' "$i" "$i"; done >train.tsv
    thin classes default --set regularizer.t.plugin="$PWD/tokens.so" --set model.task=classify \
        --set data.path="$PWD/train.tsv" --set data.val_path="$PWD/train.tsv"
    "$MOEFW" "${words[@]}"
}
