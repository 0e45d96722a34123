# Memory of a run: the prediction before the start, and the saving by recomputation.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

small=(--set data.path=builtin:topics?bytes=60000 --set model.layers=2 --set model.dim=32
    --set model.seq=32 --set expert.hidden=32 --set train.batch=4 --set train.steps=6
    --set train.eval_every=3 --set train.eval_batches=2 --set train.eval_context=0
    --set train.dropout=0.1)

# peak WORDS...: the most that a short run takes itself, in MiB, without pages of files (those on tmpfs are RssShmem), as it is foretold: the system decides
# how many of program and libraries are in memory, and newer kernels map larger pieces.
peak() {
    rm -rf run
    "$MOEFW" train -q --out run "$@" >/dev/null 3>&- &
    pid=$! most=0
    while kib=$(awk '/^RssAnon:/ && $2 { print $2 }' "/proc/$pid/status" 2>/dev/null) &&
        [ -n "$kib" ]; do
        [ "$kib" -le "$most" ] || most=$kib
        sleep 0.01
    done
    wait "$pid" || return 1
    awk -v k="$most" 'BEGIN { print k / 1024 }'
}

# foretold WORDS...: config check predicts the peak within 10 %. LLVM's OpenMP library keeps memory of its
# own besides, measured as 1.1 MiB.
foretold() {
    beside=0
    ! ldd "$MOEFW" | grep -q libomp || beside=1.5
    says=$("$MOEFW" config check --json "$@" | sed -E 's/.*"memory_mib":([0-9.]+).*/\1/')
    is=0
    for _ in 1 2 3 4 5 6 7 8; do # on a busy machine a short peak is missed between two looks
        now=$(peak "$@")
        is=$(awk -v a="$is" -v b="$now" 'BEGIN { print (a > b) ? a : b }')
        ! awk -v a="$says" -v b="$is" 'BEGIN { exit !(a < 1.1 * b) }' || break
    done
    echo "$*: said $says MiB, took $is MiB"
    awk -v a="$says" -v b="$is" -v c="$beside" 'BEGIN { exit !(a > 0.9 * b - c && a < 1.1 * b) }'
}

@test "recomputation changes no bit" {
    for how in none light block; do
        "$MOEFW" train -q --out "$how" "${small[@]}" --set train.recompute="$how"
        cmp none/ckpt/step-6/model.safetensors "$how/ckpt/step-6/model.safetensors"
        diff <(sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' none/metrics.jsonl) \
            <(sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$how/metrics.jsonl")
    done
}

@test "each level of train.recompute uses less memory than the previous one" {
    most=1000
    for how in none light block; do
        mib=$("$MOEFW" bench train default --json --repetitions 1 \
            --set train.recompute="$how" --set train.batch=8 |
            sed -E 's/.*"arena_mib":([0-9.]+).*/\1/')
        echo "$how: $mib MiB after $most MiB"
        awk -v a="$mib" -v b="$most" 'BEGIN { exit !(a > 0 && a < 0.75 * b) }'
        most=$mib
    done
}

@test "config check predicts the memory of a run within 10 %" {
    [ -r /proc/self/status ] || skip "the system does not tell the memory of a process"
    ! grep -qE '__(asan|ubsan|tsan)_' "$MOEFW" || skip "a sanitizer's own memory comes on top"
    grep -q '^RssAnon:' /proc/self/status || skip "the system does not tell anonymous memory"
    few=(default --set train.steps=2 --set data.path=builtin:topics?bytes=200000)
    foretold "${few[@]}"
    foretold "${few[@]}" --set train.recompute=block
    foretold "${few[@]}" --set train.batch=5 --set train.recompute=light
    for threads in 1 2 8; do foretold "${small[@]}" -t "$threads"; done
}

@test "steps neither allocate nor touch new pages" {
    run "$MOEFW" bench train --json --repetitions 6 "${small[@]}"
    [[ "$output" == *'"allocations_per_step":0,'* ]]
    echo "$output" | sed -E 's/.*"page_faults_per_step":([0-9.e+-]+).*/\1/' | awk '{ exit !($1 < 20) }'
}
