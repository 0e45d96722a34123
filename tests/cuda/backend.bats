# The CUDA backend on libraries that stand for those of CUDA (tests/cuda/fake_*.cc): work runs
# late and in drawn orders, the host cannot read memory of the device, a chosen call fails.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/fake_cuda.bash"

setup_file() {
    make_fake_cuda
}

setup() {
    use_fake_cuda
}

tiny="--set model.dim=16 --set model.layers=1 --set model.heads=2 --set model.seq=8 --set train.batch=2
    --set moe.experts=4 --set data.path=builtin:topics?bytes=20000 --set data.tokenizer=byte
    --set train.warmup=2 --set train.eval_context=0 --set train.eval_every=0
    --set train.eval_batches=1 --set train.final_batches=1 --set train.log_every=1
    --set report.enabled=no"

@test "doctor tells what there is; the program itself needs no library of CUDA" {
    MOEFW_PLUGIN_PATH=$fake run -0 "$MOEFW" doctor
    [[ "$output" == *"CUDA "*"driver for CUDA 13.0, runtime 13.0, cuBLASLt 13."* ]]
    MOEFW_FAKE_DRIVER=0 MOEFW_PLUGIN_PATH=$fake run -0 "$MOEFW" doctor
    [[ "$output" == *"CUDA "*"no driver, runtime 13.0"* ]]
    [[ "$output" == *"0: emulator of moefw, compute capability 8.0, 4 multiprocessors, 8192 MiB"* ]]
    run -0 ldd "$builddir/libmoefw.so.0" "$MOEFW"
    run ! grep -E 'lib(cuda|cublas)' <<<"$output"
}

# step DEVICE: one step of training
step() {
    # shellcheck disable=SC2086
    on "$1" train default $tiny --steps 1
}

@test "GPUs that cannot be used, and missing libraries: one message, exit status 6" {
    run -6 step cuda:1
    [[ "$output" == *"GPU 1 does not exist: expected 0 .. 0"* ]]
    MOEFW_EMU_ARCH=75 run -6 step cuda
    [[ "$output" == *"compute capability 7.5: expected 8.0 or higher"* ]]
    MOEFW_FAKE_FAIL=1 run -6 step cuda
    [[ "$output" == *"no GPU can be used"*"nvidia-driver"*"device cpu"* ]]
    mkdir alone
    cp "$fake/backend_cuda.so" alone/
    fake=$PWD/alone LD_LIBRARY_PATH='' run -6 step cuda
    [[ "$output" == *"cannot be loaded: "*"install the libraries that it needs"* ]]
    MOEFW_PLUGIN_PATH=$PWD/alone run -0 "$MOEFW" doctor
    [[ "$output" == *"cannot be loaded: "* ]]
    [ ! -e runs ]
}

# unit PROGRAM [CASE]: a program of unit tests on the device
unit() {
    [ -x "$builddir/tests/unit/$1" ] || skip "$1 is not built"
    run env MOEFW_PLUGIN_PATH="$fake" MOEFW_TEST_DEVICE=cuda ${2:+CK_RUN_CASE="$2"} "$builddir/tests/unit/$1"
    grep -v '^ok ' <<<"$output" | head -n 20
    [ "$status" -eq 0 ]
    grep -q '^ok ' <<<"$output"
    [ "$(grep -c '^not ok ' <<<"$output")" -eq 0 ]
}

@test "queued work: copies, order by events, waits, replays" {
    for seed in 1 2 3; do MOEFW_FAKE_SEED=$seed unit graph/check_queue; done
}

@test "gemms by cuBLASLt have the values of the reference kernels" {
    for part in 0 1 2 4; do # of them long dimensions: columns without and with bias, inner ones, rows
        MOEFW_TEST_PART=$part MOEFW_TEST_KERNELS=gemm MOEFW_TEST_FAMILY=gemm MOEFW_TEST_EVERY=11 \
            unit kernels/check_kernels "cpu against ref"
    done
    MOEFW_TEST_KERNELS="pack_weights linear_cross_entropy" MOEFW_TEST_FAMILY=layers unit kernels/check_kernels "cpu against ref"
}

@test "ops that are called with wrong sizes: a message, or the right values; no launch fails" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    CK_FORK=no unit ops/check_ops changed
}

@test "training on the device has the losses of the CPU, and leaves nothing behind" {
    # shellcheck disable=SC2086
    for device in cpu cuda; do
        on $device train default $tiny --steps 3 -q --out $device
    done
    close_to cpu cuda 3
    # shellcheck disable=SC2086
    for device in cpu cuda; do
        MOEFW_FAKE_SEED=4 on $device train default $tiny --steps 2 -q --set train.dtype=bf16 --out bf16-$device
    done
    close_to bf16-cpu bf16-cuda 2 2e-2
    # shellcheck disable=SC2086
    MOEFW_EMU_ARCH=90 MOEFW_FAKE_SEED=5 on cuda train default $tiny --steps 2 -q --set train.dtype=bf16 --out bf16-90
    close_to bf16-cpu bf16-90 2 2e-2
}

@test "experts with SwiGLU: on devices of capability 9.0 the activation is part of the gemm" {
    # shellcheck disable=SC2086
    {
        words="train default $tiny --steps 2 -q --set train.dtype=bf16 --set expert.plugin=swiglu"
        on cpu $words --out cpu
        for arch in 80 90; do
            MOEFW_EMU_ARCH=$arch MOEFW_FAKE_STATS=1 run -0 on cuda $words --out on$arch
            counted $arch "$output"
            close_to cpu on$arch 2 2e-2
        done
    }
    [ "$kernels90" -lt "$kernels80" ]
}

@test "resume: the same bits on the device, and runs go on between device and CPU" {
    # shellcheck disable=SC2086
    {
        on cuda train default $tiny --steps 4 -q --set train.schedule=constant --out whole
        on cuda train default $tiny --steps 2 -q --set train.schedule=constant --out parts
        cp -r parts there
        on cpu train default $tiny --steps 2 -q --set train.schedule=constant --out back
    }
    on cuda train --resume parts --steps 4 -q
    cmp <(weights whole) <(weights parts)
    on cpu train --resume there --steps 4 -q
    on cuda train --resume back --steps 4 -q
    close_to whole there 4
    close_to whole back 4
}

@test "too little memory: for the libraries, for a model" {
    # shellcheck disable=SC2086
    MOEFW_FAKE_MIB=40 run -1 on cuda train default $tiny --steps 1
    [[ "$output" == *"the workspace of gemms failed: out of memory"* ]]
    # shellcheck disable=SC2086
    MOEFW_FAKE_MIB=100 run -1 on cuda train default $tiny --set model.dim=512 --set model.layers=8 --steps 1
    [[ "$output" == *"no memory for "*" of 100.0 MiB are free; a smaller model.dim"* ]]
}

@test "config check says what memory of the device a run needs" {
    for micro in 1 2; do # the backend takes 64 MiB of workspace for itself
        # shellcheck disable=SC2086
        {
            MOEFW_FAKE_STATS=1 run -0 on cuda train default $tiny --steps 1 -q --set model.dim=128 --set train.accumulate=$micro
            used=$(sed -n 's/^fake runtime: bytes of the device at most //p' <<<"$output")
            run -0 "$MOEFW" config check default $tiny --json --device cuda --set model.dim=128 --set train.accumulate=$micro
        }
        planned=$(sed -E 's/.*"device_mib":([0-9.]+).*/\1/' <<<"$output")
        awk -v used="$used" -v planned="$planned" 'BEGIN {
            off = (used / 1048576 - 64) / planned; print off; exit !(off > .9 && off < 1.1) }'
    done
    # shellcheck disable=SC2086
    run -0 "$MOEFW" config check default $tiny --json
    [[ "$output" == *'"device_mib":null'* ]]
    # as text, rounded, and only of a device
    # shellcheck disable=SC2086
    run -0 "$MOEFW" config check default $tiny --device cuda --set model.dim=128 --set train.accumulate=2
    [ "${lines[1]}" = "$(printf '%.0f MiB of the device to train, and what its backend takes for itself' "$planned")" ]
    # shellcheck disable=SC2086
    run -0 "$MOEFW" config check default $tiny
    [[ "$output" != *"MiB of the device"* ]]
}

# counted STEPS OUTPUT: the numbers of a run in launches$STEPS, copies$STEPS, kernels$STEPS, gemms$STEPS,
# waits$STEPS
counted() {
    local what
    for what in 'graph launches' kernels 'gemms of cuBLASLt' waits; do
        [[ "$2" =~ "fake runtime: $what "([0-9]+) ]]
        printf -v "$(sed 's/graph //; s/ of .*//' <<<"$what")$1" %s "${BASH_REMATCH[1]}"
    done
    printf -v "copies$1" %s "$(awk '/fake runtime: copies/ { n += $NF } END { print n }' <<<"$2")"
}

@test "a step is recorded once and then replayed" {
    for steps in 3 8; do
        # shellcheck disable=SC2086
        MOEFW_FAKE_STATS=1 run -0 on cuda train default $tiny --steps $steps -q --out run$steps
        counted $steps "$output"
    done
    # what five more steps need: each one replay, two copies, one wait, no kernel or gemm of its own
    [ $((launches8 - launches3)) -eq 5 ]
    [ $((copies8 - copies3)) -le 10 ]
    [ $((waits8 - waits3)) -le 5 ]
    [ $((kernels8 - kernels3)) -eq 0 ]
    [ $((gemms8 - gemms3)) -eq 0 ]
    [ "$gemms3" -gt 0 ]
}

# right: a run in which no call fails, for failing to compare with; calls: how many it makes
right() {
    # shellcheck disable=SC2086
    MOEFW_FAKE_STATS=1 run -0 on cuda train default $tiny --steps 1 -q --out right
    [[ "$output" =~ "fake runtime: calls "([0-9]+) ]]
    calls=${BASH_REMATCH[1]}
    gemms=$(gemms_of "$output")
}

@test "one step leaves nothing behind, and has gemms of cuBLASLt" {
    right
    [[ "$output" =~ "fake runtime: gemms of cuBLASLt "([0-9]+) ]]
    [ "${BASH_REMATCH[1]}" -gt 15 ] # more than those of the head
}

# failing N: the N-th call fails; kernel:N and gemm:N are the N-th launch of such. The command ends
# with 1 or 6 and a message, or well and with the weights of a run without a failure, or, after fewer
# gemms of cuBLASLt, nearly its loss. The device and the libraries have nothing left, or the status
# would be 99
failing() {
    rm -rf run
    # shellcheck disable=SC2086
    MOEFW_FAKE_STATS=1 MOEFW_FAKE_FAIL=$1 run on cuda train default $tiny --steps 1 -q --out run
    case $status in
    0)
        cmp -s <(weights right) <(weights run) && return 0
        [ "$(gemms_of "$output")" -lt "$gemms" ] && close_to right run 1 && return 0
        ;;
    1 | 6) [[ "$output" == *"moefw: "*"device cuda"* || "$output" == *"moefw: "*"GPU"* ||
        "$output" == *"moefw: "*"failed"* ]] && return 0 ;;
    esac
    echo "call $1: status $status: $output"
    return 1
}

@test "calls of CUDA that fail: a message, status 1 or 6, nothing left" {
    right
    for n in 2 3 5 8 13 21 34 55 144 610 $((calls - 250)) $((calls - 30)) kernel:1 kernel:30 kernel:90 gemm:2 gemm:9; do failing $n; done
}

@test "each call of CUDA fails once" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    right
    [ "$calls" -gt 500 ]
    for ((n = 1; n <= calls; n++)); do failing $n; done
}
