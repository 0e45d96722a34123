# Runs that last: nothing grows with the steps, and the clock may be set back meanwhile.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

small=(--set data.path=builtin:topics?bytes=60000 --set model.layers=1 --set model.dim=32
    --set model.seq=32 --set expert.hidden=32 --set train.batch=2 --set train.eval_batches=2
    --set train.eval_context=0 --set train.warmup=2 --set log.tensorboard=yes -t 1 -q)

values() { # RUN: metrics without times
    sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"
}

@test "a clock that goes backward changes no result" {
    ! grep -qE '__(asan|tsan)_init' "$MOEFW" || skip "a sanitizer must be loaded first"
    $CC -std=gnu17 -O1 -Wall -Wextra -fPIC -shared -o clock.so "$srcdir/tests/lib/backward_clock.c"
    "$MOEFW" train "${small[@]}" --set train.steps=12 --set train.eval_every=4 --out plain
    export LD_PRELOAD=$PWD/clock.so
    [ "$(date +%Y)" = 2033 ]
    "$MOEFW" train "${small[@]}" --set train.steps=12 --set train.eval_every=4 \
        --set train.save_every=6 --out back
    rm -r back/ckpt/step-12
    echo step-6 >back/ckpt/latest
    run "$MOEFW" train back --resume -q -t 1
    echo "$output"
    [ "$status" -eq 0 ]
    "$MOEFW" report back -q
    "$MOEFW" runs . >list
    unset LD_PRELOAD
    grep -q back list
    cmp plain/ckpt/step-12/model.safetensors back/ckpt/step-12/model.safetensors
    diff <(values plain) <(values back)
    [ "$(grep -cE '"(tokens_per_s|wall_s)":(-|0[,}]|null)' back/metrics.jsonl)" -eq 0 ]
    # the file of the second part comes after that of the first, for whoever reads them in order
    [ "$(find back/tensorboard/train -type f | wc -l)" -eq 2 ]
    last=$(find back/tensorboard/train -type f | LC_ALL=C sort | tail -n 1)
    [ "$(find back/tensorboard/train -type f -newer "$(find back/tensorboard/train -type f | LC_ALL=C sort | head -n 1)")" = "$last" ]
}

# seen PID: resident memory in KiB without pages of files, and the number of descriptors
seen() {
    echo "$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status") $(find "/proc/$1/fd" | wc -l)"
}

@test "ten minutes of training: memory and descriptors do not grow (slow)" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 runs it, for MOEFW_SOAK seconds (600)"
    ! grep -qE '__(asan|ubsan|tsan)_' "$MOEFW" || skip "a sanitizer's own memory comes on top"
    seconds=${MOEFW_SOAK:-600}
    "$MOEFW" train "${small[@]}" --set train.steps=100000000 --set train.save_every=200 \
        --set train.keep=2 --set train.eval_every=100 --set train.log_every=5 --out soak 3>&- &
    pid=$!
    sleep $((seconds / 5))
    first=$(seen $pid)
    sleep $((seconds * 4 / 5))
    last=$(seen $pid)
    kill -TERM $pid
    wait $pid && false
    [ $? -eq 143 ]
    steps=$(sed 's/^step-//' soak/ckpt/latest)
    echo "$steps steps; KiB and descriptors after a fifth of the time: $first, at the end: $last"
    echo "# $steps steps, $first KiB and descriptors, then $last" >&3
    [ "$(find soak/ckpt -name 'step-*' | wc -l)" -eq 2 ]
    read -r kib fds <<<"$first"
    read -r kib_then fds_then <<<"$last"
    [ "$fds_then" -eq "$fds" ]
    [ $((kib_then - kib)) -lt 1024 ]
    "$MOEFW" ckpt verify soak
}
