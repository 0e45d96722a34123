# Everything that computes runs on a device as it does on the CPU: shown on the strict device
# (tests/device/strict.c), whose memory the host cannot read and whose streams run late.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    strict=$builddir/tests/device
    [ -e "$strict/backend_strict.so" ] || make -s -C "$builddir" tests/device/backend_strict.so
}

slow() {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
}

# same WORDS...: these runs give the recorded bits on the strict device
same() {
    grep -qw avx2 /proc/cpuinfo 2>/dev/null || skip "the records need a processor with AVX2"
    run sh "$srcdir/tests/bits/check.sh" -D strict -p "$strict" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

# unit PROGRAM CASE: a program of unit tests on the strict device; without a case, all of them
unit() {
    [ -x "$builddir/tests/unit/$1" ] || skip "$1 is not built"
    run env MOEFW_PLUGIN_PATH="$strict" MOEFW_TEST_DEVICE=strict MOEFW_STRICT_SEED=3 \
        ${2:+CK_RUN_CASE="$2"} "$builddir/tests/unit/$1"
    grep -v '^ok ' <<<"$output" | head -n 20
    [ "$status" -eq 0 ]
    grep -q '^ok ' <<<"$output"
    [ "$(grep -c '^not ok ' <<<"$output")" -eq 0 ]
}

small="--set model.dim=32 --set model.layers=2 --set model.seq=32 --set train.batch=4
    --set data.path=builtin:topics?bytes=20000 --set data.tokenizer=byte --set train.warmup=2
    --set train.eval_context=0 --set train.eval_batches=2"

# on DEVICE WORDS...: the program with words, on a device
on() {
    device=$1
    shift
    MOEFW_PLUGIN_PATH=$strict "$MOEFW" "$@" --device "$device"
}

# timeless RUN: its metrics without times
timeless() {
    sed -E -e 's/"(tokens_per_s|wall_s)":[^,}]*//g' "$1/metrics.jsonl"
}

# same_run A B: two runs have the same metrics and weights
same_run() {
    cmp <(timeless "$1") <(timeless "$2")
    cmp "$1/ckpt/$(cat "$1/ckpt/latest")/model.safetensors" "$2/ckpt/$(cat "$2/ckpt/latest")/model.safetensors"
}

@test "a device that is missing exits 6 and says what to install" {
    run -6 "$MOEFW" train default --device strict --steps 1
    [[ "$output" == *"train.device = strict"*"no backend_strict.so in"*"tests/device"* ]]
    CUDA_VISIBLE_DEVICES='' run -6 "$MOEFW" train default --device cuda:1 --steps 1
    if [ -e "$builddir/plugins/backend_cuda.so" ]; then
        [[ "$output" == *"backend_cuda.so: no GPU can be used: "* ]]
    else
        [[ "$output" == *"no backend_cuda.so in "*"install"* ]]
    fi
    cp "$strict/backend_strict.so" backend_cuda.so
    MOEFW_PLUGIN_PATH=$PWD run -6 "$MOEFW" train default --device cuda:1 --steps 1
    [[ "$output" == *"expected number 0"* ]]
    echo nothing >backend_cuda.so
    MOEFW_PLUGIN_PATH=$PWD run -4 "$MOEFW" train default --device cuda --steps 1
    [[ "$output" == *"backend_cuda.so"*"ELF"* ]]
    [ ! -e runs ]
}

@test "training, resume, evaluation and text have the bits of the CPU" {
    same "$MOEFW" default bf16 heads
}

@test "capacity, published routers, classes, masked tokens, plugins, every router: the same bits" {
    same "$MOEFW" capacity reassign switch lamoe attention vanilla masked plugins routers
}

@test "a drawn order of the device's work changes nothing" {
    for seed in 1 2; do
        MOEFW_STRICT_SEED=$seed same "$MOEFW" masked capacity
    done
}

@test "every quick preset has the bits of the CPU" {
    slow
    [ -n "$MOEFW_DATA" ] || skip "no data: set MOEFW_DATA"
    same -d "$MOEFW_DATA" "$MOEFW" switch-quick switch-as-run-quick switch-plus-quick \
        switch-plus-as-run-quick lamoe-quick lamoe-as-run-quick tagat-balanced-quick \
        tagat-balanced-as-run-quick tagat-specialised-quick tagat-specialised-as-run-quick \
        vanilla-quick vanilla-as-run-quick sentinel-quick
}

words="--steps 12 -q --set train.eval_every=0 --set train.log_every=2 --set train.batch=4 --set model.seq=32 --set train.eval_context=0"

@test "a step costs 2 copies, 1 wait and 1 launch of a recording, whatever is measured in it" {
    # shellcheck disable=SC2086
    MOEFW_STRICT_STATS=1 on strict train default $words --out run 2>log
    cat log
    grep -q '^strict: at most [0-2] copies, 1 waits and 0 allocations in a step$' log
    # two forms of a step, with metrics and without: queued once, then recorded
    grep -q ' 10 replays$' log
    run ! grep -q 'not freed' log
}

@test "recorded launches have the results of launches one by one" {
    # shellcheck disable=SC2086
    for record in yes no; do
        MOEFW_STRICT_SEED=5 MOEFW_STRICT_STATS=1 on strict train default $words --set train.accumulate=2 \
            --set device.record=$record --out $record 2>$record.log
    done
    same_run yes no
    grep -q ' 0 replays$' no.log
    grep -q ' [1-9][0-9]* replays$' yes.log
    # Gradients of micro-batches in bf16.
    # shellcheck disable=SC2086
    for device in cpu strict; do
        on $device train default $words --set train.accumulate=2 --set parallel.gradient=bf16 --out bf16-$device
    done
    same_run bf16-cpu bf16-strict
    run same_run bf16-cpu yes
    [ "$status" -ne 0 ]
}

@test "micro-batches are queued one behind the other" {
    # shellcheck disable=SC2086
    for device in cpu strict; do
        MOEFW_STRICT_STATS=1 on $device train default $small --steps 4 -q --set train.accumulate=3 \
            --set train.eval_every=0 --set train.log_every=100 --out $device 2>log
    done
    same_run cpu strict
    # one copy there and one back for each, and as many where its statistics are read as it ends
    grep -q '^strict: at most [89] copies, [1-6] waits and 0 allocations in a step$' log || { cat log; return 1; }
}

@test "a run that was begun on one device goes on, and is read, on another" {
    # shellcheck disable=SC2086
    for device in cpu strict; do
        on $device train default $small --steps 4 -q --set train.schedule=constant --out $device
    done
    same_run cpu strict
    on strict train --resume cpu --steps 8 -q 2>log || { cat log; return 1; }
    on cpu train --resume strict --steps 8 -q
    same_run cpu strict
    for device in cpu strict; do
        on $device generate cpu -p "the" -n 20 --temp 0 >text.$device
        on $device eval cpu --json | sed -E 's/"(tokens_per_s|wall_s)":[^,}]*//g' >eval.$device
    done
    cmp text.cpu text.strict
    cmp eval.cpu eval.strict
}

@test "ops of plugins without launch functions run on the host, and the log says so once" {
    # shellcheck disable=SC2086
    for device in cpu strict; do
        on $device train default $small --plugin routers/hash.so --steps 3 -v --out $device 2>log
    done
    same_run cpu strict
    [ "$(grep -c 'has no launch function for device strict' log)" -eq 1 ]
}

@test "an op whose kernel the device lacks runs on the host, and the log names each kernel once" {
    # shellcheck disable=SC2086
    for device in cpu strict; do
        MOEFW_STRICT_LACKS=all on $device train default $small --steps 4 -v --out $device 2>$device.log
    done
    same_run cpu strict
    [ "$(grep -c 'needs the kernel gemm for device strict, which has none: it runs on the host' strict.log)" -eq 1 ]
    # random numbers and faults, too
    # shellcheck disable=SC2086
    for device in cpu strict; do
        MOEFW_STRICT_LACKS="dropout random topk" on $device train default $small --steps 4 -q \
            --set train.dropout=0.1 --plugin routers/noisy_topk.so --out random-$device
    done
    same_run random-cpu random-strict
}

@test "device.strict refuses what would run on the host" {
    # shellcheck disable=SC2086
    MOEFW_STRICT_LACKS=topk run -6 on strict train default $small --steps 1 --set device.strict=yes --out run
    [[ "$output" == *"needs the kernel topk for device strict, which has none; device.strict = no lets it run on the host"* ]]
    # shellcheck disable=SC2086
    run -6 on strict train default $small --steps 1 --set device.strict=yes --plugin routers/hash.so --out run
    [[ "$output" == *"has no launch function for device strict"*"device.strict = no"* ]]
    # shellcheck disable=SC2086
    MOEFW_STRICT_LACKS=copy4 run -6 on strict train default $small --steps 1 --out run
    [[ "$output" == *"lacks one of the kernels copy4"* ]]
    # shellcheck disable=SC2086
    MOEFW_STRICT_LACKS=descend run -6 on strict train default $small --steps 1 --set train.optimizer=muon --out run
    [[ "$output" == *"of device strict lack this optimizer; expected adamw"* ]]
}

@test "a value that is not finite is traced to the op that made it, as on the CPU" {
    # shellcheck disable=SC2086
    for device in cpu strict; do
        run -5 on $device train default $small --steps 20 -q --set train.lr=1000 --set train.clip=0 --out $device
        tail -n 1 <<<"$output" >said.$device
    done
    cmp said.cpu said.strict
    grep -qE 'step [0-9]+: .* is (NaN|-?Inf) at index [0-9]+; its input' said.strict
}

@test "probes run on the strict device" {
    unit lab/check_probe ''
    unit lab/check_prune ''
}

@test "every op runs on the strict device" {
    unit ops/check_ops fast
    unit ops/check_ops bf16
    unit ops/check_ops supported
    unit ops/check_dispatch ''
    unit ops/check_overflow ''
}

@test "every op runs on the strict device: values against formulas, gradients against differences" {
    slow
    unit ops/check_ops right
    unit ops/check_ops gradient
}

# The numbers are those of the CPU, which check_kernels compares for all variants; here it is the
# moved arguments that count.
@test "every kernel runs on the strict device" {
    [ -n "$MOEFW_SLOW" ] || export MOEFW_TEST_EVERY=4
    unit kernels/check_kernels "cpu against ref"
}
