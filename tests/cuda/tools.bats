# Commands beside train on the CUDA backend, on libraries that stand for those of CUDA: each gives
# what the CPU gives. And what a person sees of a device: its use, too little memory, measurements.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/fake_cuda.bash"

setup_file() {
    make_fake_cuda
}

setup() {
    use_fake_cuda 1
}

tiny="$small $text --set model.dim=16 --set model.layers=1 --set model.heads=2 --set expert.hidden=8
    --set moe.experts=4 --set train.eval_context=0"

# trained OUT WORDS...: a run of two steps on the CPU
trained() {
    # shellcheck disable=SC2086
    on cpu train default -q $tiny --steps 2 --out "$@"
}

# used WORDS...: the program with words on the device, which must run kernels there
used() {
    MOEFW_FAKE_STATS=1 on cuda "$@" 2>said || { cat said; return 1; }
    grep -qE '^fake runtime: kernels [1-9]' said || { echo "the device was not used: $*"; return 1; }
}

# number KEY: the first number of this key in the JSON on stdin
number() {
    grep -oE "\"$1\":[-+0-9.e]+" | head -n 1 | cut -d: -f2
}

# near A B [BOUND]
near() {
    awk -v a="$1" -v b="$2" -v bound="${3:-1e-5}" 'BEGIN { d = a > b ? a - b : b - a
        exit !(a != "" && b != "" && d <= bound * (a < 0 ? 1 - a : 1 + a)) }' || { echo "$1, but $2"; return 1; }
}

@test "eval, generate and trace give what they give on the CPU" {
    trained run
    on cpu eval run --batches 2 --json >cpu.json
    on cpu generate run -q -p "the" -n 5 --temp 0 >cpu.text
    on cpu trace record run -q --batches 1 -o cpu.trace >/dev/null
    used eval run --batches 2 --json >cuda.json
    used generate run -q -p "the" -n 5 --temp 0 >cuda.text
    used generate run -q -p "the" -n 5 --temp 0 --no-cache >cuda.again
    used trace record run -q --batches 1 -o cuda.trace >/dev/null
    used trace replay cpu.trace run -q >/dev/null
    used bench generate run --prompt 2 --tokens 2 --repetitions 1 >/dev/null
    printf 'the\n' | used generate run -i -q -n 2 >/dev/null
    near "$(number loss <cpu.json)" "$(number loss <cuda.json)"
    [ -s cpu.text ]
    cmp cpu.text cuda.text
    cmp cpu.text cuda.again
    run -0 "$MOEFW" trace diff cpu.trace cuda.trace --json
    [[ "$output" == *'"same":true'* ]]
}

@test "compare and swap give what they give on the CPU" {
    for device in cpu cuda; do
        # shellcheck disable=SC2086
        on $device compare default $tiny --routers linear,cosine --seeds 1 --steps 2 -q -o $device >$device.text
        [ "$(cat $device/*/seed-1/config.ini | grep -c "^device *= *$device\b")" -eq 2 ]
    done
    for router in linear cosine; do
        a=$(cat cpu/$router/seed-1/metrics.jsonl | grep '"split":"val"' | tail -n 1 | number loss)
        b=$(cat cuda/$router/seed-1/metrics.jsonl | grep '"split":"val"' | tail -n 1 | number loss)
        near "$a" "$b"
    done
    trained run
    on cpu swap run --router cosine --match 2 --batches 1 -q -o swapped-cpu --json >cpu.json
    used swap run --router cosine --match 2 --batches 1 -q -o swapped-cuda --json >cuda.json
    for key in loss_before loss_after overlap kl; do near "$(number $key <cpu.json)" "$(number $key <cuda.json)"; done
}

@test "bench gemm, layer, train, generate, prompt and infer run, and say nothing of the CPU" {
    run -2 --separate-stderr on cuda bench gemm --most 0.1 --repetitions 1 --json
    [ -z "$output" ] # no gemm is as small
    [[ "$stderr" == *"smallest"* ]]
    run -0 --separate-stderr on cuda bench gemm --most 2 --repetitions 1 --json
    [ "$(grep -c '"what":"gemm".*"by":"cuda"' <<<"$output")" -eq 2 ]
    [[ "$output" != *'"isa"'* ]]
    run -0 --separate-stderr on cuda bench gemm --most 2 --repetitions 1
    [ "${lines[0]}" = "device cuda: no peak is known" ]
    [ "${lines[1]}" = "form   types   E      m      n      k         ms  GFLOP/s of peak" ]
    [[ "${#lines[@]}" -eq 4 && "${lines[3]}" == "x w^T  bf16 "*" -" ]]
    # 66.9 and 989.4 TFLOP/s by its data sheet
    MOEFW_FAKE_NAME="NVIDIA H100 80GB HBM3" run -0 --separate-stderr on cuda bench gemm --most 2 --repetitions 1
    [[ "${lines[0]}" == "device cuda: 66900 GFLOP/s in f32 and 989400 in bf16 by its data sheet or clock" ]]
    [[ "${lines[2]}" == "x w^T  f32 "*" %" && "${lines[3]}" == "x w^T  bf16 "*" %" ]]
    run -0 --separate-stderr on cuda bench layer --dim 16 --hidden 16 --experts 4 --tokens 16 --repetitions 1
    [[ "$output" == *", cuda"*"no peak of this device is known"*"0 ops ran on the host"* ]]
    for what in train generate prompt infer; do
        words=
        [ $what = train ] || [ $what = infer ] || words="--prompt 4"
        [ $what = generate ] && words="--prompt 4 --tokens 2"
        # shellcheck disable=SC2086
        MOEFW_FAKE_NAME="NVIDIA H100 80GB HBM3" run -0 --separate-stderr on cuda bench $what default $tiny $words \
            --repetitions 2 --json
        [ -z "$stderr" ]
        [[ "$output" == *"\"what\":\"$what\",\"backend\":\"cuda\""*'"peak_gflops":66900'*'"host_ops":0'* ]]
    done
    # a profile has the times of the device: on the fake one a millisecond a launch, in whole numbers
    # shellcheck disable=SC2086
    run -0 --separate-stderr on cuda bench train default $tiny --repetitions 2 --profile
    grep -qE '^linear_cross_entropy +[1-9][0-9]*\.00 ' <<<"$stderr"
    [ "$(grep -cE '^[a-z_]+( backward)? +[0-9]+\.[0-9]+ +[0-9.]+% +[0-9]+ +[0-9]+000\.0( |$)' <<<"$stderr")" -gt 20 ]
    # steps that are measured are replayed, as in training
    for n in 3 5; do
        # shellcheck disable=SC2086
        MOEFW_FAKE_STATS=1 run -0 on cuda bench train default $tiny --repetitions $n --json
        [[ "$output" =~ "graph launches "([0-9]+) ]]
        printf -v "launches$n" %s "${BASH_REMATCH[1]}"
    done
    [ $((launches5 - launches3)) -eq 2 ]
}

@test "progress and summary say MFU and memory of the device, or that MFU is not known" {
    # shellcheck disable=SC2086
    run -0 on cuda train default $tiny --steps 3 --out unknown
    [[ "$output" == *"device              MFU not known: no peak of this device in f32; 0.1 of 8.0 GiB of memory in use"* ]]
    # shellcheck disable=SC2086
    MOEFW_FAKE_NAME="NVIDIA H100 80GB HBM3" run -0 on cuda train default $tiny --steps 3 --set train.dtype=bf16 --out known
    [[ "$output" =~ "step 3/3  loss "[0-9.]+"  "[0-9.]+" tokens/s  MFU 0.0 %, 0.1 of 8.0 GiB" ]]
    [[ "$output" =~ "device              MFU "([-0-9.e]+)" % of 989.4 TFLOP/s in bf16; 0.1 of 8.0 GiB" ]]
    awk -v mfu="${BASH_REMATCH[1]}" 'BEGIN { exit !(mfu > 0 && mfu < 1) }'
    # names of other models that hold the name of a known one
    for name in "NVIDIA RTX A1000" "NVIDIA RTX A4000" "NVIDIA GeForce RTX 4090 Laptop GPU"; do
        MOEFW_FAKE_NAME=$name run -0 on cuda bench layer --dim 16 --hidden 16 --experts 4 --tokens 16 --repetitions 1
        [[ "$output" == *"no peak of this device is known"* ]]
    done
    # another name: multiprocessors x clock x FLOP a clock
    # shellcheck disable=SC2086
    MOEFW_FAKE_KHZ=1000000 run -0 on cuda train default $tiny --steps 3 --out clock
    [[ "$output" =~ "device              MFU "([-0-9.e]+)" % of 0.128 TFLOP/s in f32" ]]
    # shellcheck disable=SC2086
    run -0 on cpu train default $tiny --steps 3 --out cpu
    [[ "$output" != *MFU* ]]
}

@test "too little memory: the message names the largest values, and what to turn down" {
    # shellcheck disable=SC2086
    MOEFW_FAKE_MIB=100 run -1 on cuda train default $tiny --set model.dim=512 --set model.layers=8 --steps 1
    [[ "$output" == *"no memory for "*" of 100.0 MiB are free; a smaller model.dim, "*"M parameters, "*"the largest are layers.0.attention.qkv.weight 3.0 MiB, "* ]]
    # shellcheck disable=SC2086
    MOEFW_FAKE_MIB=100 run -1 on cuda train default $tiny --set train.batch=64 --set model.seq=512 --set model.layers=8 --steps 1
    [[ "$output" == *"no memory for "*" of 100.0 MiB are free; a smaller train.batch or model.seq, "*"the largest values are "*"(layers."*" MiB, "* ]]
    [ ! -e runs ] || [ -z "$(ls runs/*/ckpt 2>/dev/null)" ]
}

@test "bench/run.sh --device cuda: what is missing, the commands, pairs and a page" {
    command -v python3 >/dev/null || skip "bench/ needs Python"
    export MOEFW
    CUDA_VISIBLE_DEVICES='' run -6 "$srcdir/bench/run.sh" --device cuda
    if [ -e "$builddir/plugins/backend_cuda.so" ]; then
        [[ "$output" == *"moefw sees no GPU: "*"no GPU can be used: "* ]]
    else
        [[ "$output" == *"moefw sees no GPU: no backend_cuda.so in "* ]]
    fi
    export MOEFW_PLUGIN_PATH=$fake
    BENCH_PYTHON_CURRENT=$PWD/none run -6 "$srcdir/bench/run.sh" --device cuda
    [[ "$output" == *"none: No such file"* ]]
    BENCH_PYTHON_CURRENT=$(command -v false) run -6 "$srcdir/bench/run.sh" --device cuda
    [[ "$output" == *"has no PyTorch that sees a GPU"* ]]
    run -0 "$srcdir/bench/run.sh" --device cuda --dry-run
    [ "$(grep -c 'bench layer .*--device cuda' <<<"$output")" -eq 6 ]
    [ "$(grep -c -e '--how compiled' <<<"$output")" -eq 2 ]
    # an opponent that says it takes 1 ms
    cat >twin <<'END'
#!/bin/sh
[ "$1" = -c ] && exit 0
while read -r n; do echo '{"ms": [1.0]}'; done
echo '{"memory_mib": 0}'
END
    chmod +x twin
    BENCH_PYTHON_CURRENT=$PWD/twin run -0 "$srcdir/bench/run.sh" --device cuda --small --pairs 2 --page page.md
    [ "$(grep -c '^| .* | .* | [0-9.]* | 1.000 | ' page.md)" -eq 7 ]
    grep -q '^llm.c publishes 45.9 % MFU' page.md
    grep -q 'emulator of moefw' page.md
    # one workload that fails does not stop the others
    printf '#!/bin/sh\n[ "$1" = -c ]\n' >twin
    BENCH_PYTHON_CURRENT=$PWD/twin run -1 "$srcdir/bench/run.sh" --device cuda --small --pairs 1 --page bad.md decode gpt2
    [ "$(grep -c '^Failed: ' bad.md)" -eq 3 ]
}

# same_answer: output is that of the file right, or, after fewer gemms of cuBLASLt, nearly its loss
same_answer() {
    [ "$output" = "$(cat right)" ] && return
    [ "$(gemms_of "$stderr")" -lt "$gemms" ] && near "$(number loss <right)" "$(number loss <<<"$output")"
}

# failing WORDS...: every 17th call of CUDA fails once: 1 or 6 with a message, or the right answer
failing() {
    local calls gemms n
    MOEFW_FAKE_STATS=1 on cuda "$@" >right 2>said
    calls=$(sed -n 's/^fake runtime: calls //p' said)
    [ "$calls" -gt 100 ]
    gemms=$(gemms_of "$(cat said)")
    for ((n = 1; n <= calls; n += 17)); do
        MOEFW_FAKE_STATS=1 MOEFW_FAKE_FAIL=$n run --separate-stderr on cuda "$@"
        case $status in
        0) same_answer && continue ;;
        1 | 6) [[ "$stderr" == *"moefw: "*"device cuda"* || "$stderr" == *"moefw: "*"GPU"* ||
            "$stderr" == *"moefw: "*"failed"* ]] && continue ;;
        esac
        echo "call $n: status $status: $output $stderr"
        return 1
    done
}

@test "eval and generate: calls of CUDA that fail" {
    trained run
    failing generate run -q -p "the" -n 3 --temp 0
    failing eval run --batches 1 --json
}
