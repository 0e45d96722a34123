# The communicator module of NCCL, on a library that stands for NCCL and CUDA (tests/cuda/fake_nccl.c):
# bytes that come late and in another order, calls that fail, ranks that end.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/emulator.bash"

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export TMPDIR="$BATS_TEST_TMPDIR"
    made fake-nccl >&2
    export MOEFW_PLUGIN_PATH="$builddir/tests/cuda/nccl" MOEFW_FAKE_LEAKS=1 OMP_NUM_THREADS=1
    port=$((20000 + $$ % 20000 + 40 * BATS_TEST_NUMBER))
    export MOEFW_COMM_ROOT="127.0.0.1:$port"
    small=(--set train.steps=4 --set train.warmup=1 --set train.accumulate=4 --set train.batch=2
        --set train.log_every=1 --set train.eval_batches=1 --set train.final_batches=1 --set report.enabled=no
        --set model.dim=32 --set expert.hidden=64 --set model.layers=2 --set "data.path=builtin:topics?bytes=60000")
}

# ranks N ARGUMENT...: as a launcher that sets RANK and WORLD_SIZE; the status is that of rank 0, and
# those of the others are in the files status.1 and so on
ranks() {
    local n=$1 r
    shift
    rm -f status.*
    for ((r = 1; r < n; r++)); do
        {
            local rc=0
            RANK=$r WORLD_SIZE=$n timeout 300 "$MOEFW" "$@" --set parallel.comm=nccl >"out.$r" 2>&1 || rc=$?
            echo "$rc" >"status.$r"
        } 3>&- &
    done
    local rc=0
    RANK=0 WORLD_SIZE=$n timeout 300 "$MOEFW" "$@" --set parallel.comm=nccl || rc=$?
    wait
    return "$rc"
}

all_ended_with() {
    cat out.* status.*
    for f in status.*; do [ "$(cat "$f")" -eq "$1" ]; done
}

nothing_left() {
    [ -z "$(ls -d fake_nccl_* 2>/dev/null)" ]
}

same() {
    for f in model state; do cmp "$1/ckpt/step-4/$f.safetensors" "$2/ckpt/step-4/$f.safetensors"; done
    diff <(sed 's/"tokens_per_s":[^,}]*,\{0,1\}//; s/,"wall_s":[^,}]*//' "$1/metrics.jsonl") \
        <(sed 's/"tokens_per_s":[^,}]*,\{0,1\}//; s/,"wall_s":[^,}]*//' "$2/metrics.jsonl")
}

@test "the same files on 1, 2, 3 and 4 ranks; late, and in three orders" {
    "$MOEFW" train default "${small[@]}" -q --out one
    for n in 1 2 3 4; do
        ranks "$n" train default "${small[@]}" -q --out "many$n"
        same one "many$n"
    done
    for seed in 2 3; do
        MOEFW_FAKE_SEED=$seed ranks 2 train default "${small[@]}" -q --out "seed$seed" --set parallel.bucket=1
        all_ended_with 0
        same one "seed$seed"
    done
    nothing_left
}

@test "messages of 4096 bytes, and ranks that share the experts" {
    "$MOEFW" train default "${small[@]}" -q --out one
    MOEFW_COMM_CHUNK=4096 ranks 2 train default "${small[@]}" -q --out two
    same one two
    "$MOEFW" train default "${small[@]}" -q --out shared --set parallel.expert=2
    ranks 2 train default "${small[@]}" -q --out shared2 --set parallel.expert=2
    same shared shared2
    nothing_left
}

@test "each call fails once, on rank 1: all ranks end, and say why" {
    local failed=0
    for call in 1 2 3 4 5 6 7 8 9 12 15 18 21 25 30 40 60 90 150 250; do
        rm -rf out
        export MOEFW_FAKE_NCCL_FAIL=$call MOEFW_FAKE_NCCL_RANK=1
        run ranks 2 train default "${small[@]}" -q --out out --set parallel.patience=20
        unset MOEFW_FAKE_NCCL_FAIL MOEFW_FAKE_NCCL_RANK
        echo "call $call: $status and $(cat status.1): $output / $(cat out.1)"
        # It was no call of the run, or rank 0 ends with what it knows: 6 at the start, 7 later.
        if [ "$(cat status.1)" -eq 0 ]; then
            [ "$status" -eq 0 ]
        else
            [[ "$(cat status.1)" =~ ^[67]$ ]]
            [[ "$status" =~ ^[67]$ ]]
            grep -q '^moefw: \|^rank 1' out.1
            failed=$((failed + 1))
        fi
    done
    [ "$failed" -ge 12 ]
}

@test "a peer that NCCL reports as failed ends all ranks with 7" {
    MOEFW_FAKE_NCCL_ASYNC=9 MOEFW_FAKE_NCCL_RANK=1 run ranks 3 train default "${small[@]}" -q --out out
    echo "$status $output"
    [ "$status" -eq 7 ]
    all_ended_with 7
    [[ "$(cat out.1)" == *"communicator nccl has failed"* ]]
}

@test "a rank that is killed is noticed by the others" {
    long=(train default "${small[@]}" -q --out out --set train.steps=100000)
    RANK=1 WORLD_SIZE=2 "$MOEFW" "${long[@]}" --set parallel.comm=nccl >out.1 2>&1 3>&- &
    local other=$!
    { sleep 4; kill -KILL "$other"; } 3>&- &
    RANK=0 WORLD_SIZE=2 run timeout 60 "$MOEFW" "${long[@]}" --set parallel.comm=nccl
    wait
    echo "$output"
    [ "$status" -eq 7 ]
    [[ "$output" == *"communicator nccl has failed"* ]]
}

@test "another configuration on one rank" {
    RANK=1 WORLD_SIZE=2 "$MOEFW" train default "${small[@]}" --set train.lr=0.5 -q --set parallel.comm=nccl \
        --out out >out.1 2>&1 3>&- &
    RANK=0 WORLD_SIZE=2 run "$MOEFW" train default "${small[@]}" -q --set parallel.comm=nccl --out out
    wait
    echo "$output"
    [ "$status" -eq 4 ]
}

@test "the place of rank 0, visitors of its port, too few GPUs" {
    MOEFW_COMM_ROOT=nowhere run ranks 1 train default "${small[@]}" -q --out alone
    [ "$status" -eq 0 ] # one rank needs no place
    MOEFW_COMM_ROOT=nowhere run ranks 2 train default "${small[@]}" -q --out out
    [ "$status" -eq 6 ]
    [[ "$output" == *"nccl: expected MOEFW_COMM_ROOT = HOST:PORT of rank 0"*"found 'nowhere'"* ]]
    all_ended_with 6
    unset MOEFW_COMM_ROOT
    MASTER_ADDR=localhost MASTER_PORT=$((port + 1)) ranks 2 train default "${small[@]}" -q --out master
    all_ended_with 0
    export MOEFW_COMM_ROOT="[::1]:$((port + 2))"
    if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
        ranks 2 train default "${small[@]}" -q --out six
    fi
    export MOEFW_COMM_ROOT="127.0.0.1:$((port + 3))"
    { for _ in $(seq 40); do echo GET / 2>/dev/null >"/dev/tcp/127.0.0.1/$((port + 3))" && break; sleep 0.1; done; } 2>/dev/null 3>&- &
    ranks 2 train default "${small[@]}" -q --out visited
    MOEFW_FAKE_NCCL_GPUS=1 run ranks 2 train default "${small[@]}" -q --out out
    [ "$status" -eq 6 ]
    [[ "$output" == *"has 2 ranks and 1 GPUs; expected one for each rank"* ]]
    all_ended_with 6
    # A launcher shows each rank its own GPU.
    CUDA_VISIBLE_DEVICES=3 MOEFW_FAKE_NCCL_GPUS=1 ranks 2 train default "${small[@]}" -q --out own
    all_ended_with 0
}

@test "moefw doctor and bench comm know the module" {
    run "$MOEFW" doctor
    [[ "$output" == *nccl* ]]
    run ranks 2 bench comm --json
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == *'"comm":"nccl","ranks":2'* ]]
}

@test "the module of this build has NCCL as it is here, or there is none" {
    unset MOEFW_PLUGIN_PATH
    run "$MOEFW" train default "${small[@]}" -q --set parallel.comm=nccl --out out
    echo "$output"
    [ "$status" -eq 0 ] || [ "$status" -eq 6 ]
    [ "$status" -eq 0 ] || [[ "$output" == "moefw: "* ]]
}
