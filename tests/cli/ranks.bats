# Runs of several processes: the same bits as one process, refused launches, resumes, faults.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    ranks_setup
}

# equal "RANKS..." WORDS...: runs with so many ranks equal that of one process
equal() {
    local counts=$1 n
    shift
    rm -rf one many
    thin one "$@"
    "$MOEFW" "${words[@]}"
    for n in $counts; do
        thin many "$@"
        ranks "$n" "${words[@]}" || return 1
        same one many || return 1
        rm -rf many
    done
}

@test "the same files on 1, 2, 3 and 4 ranks" {
    equal "2 3 4" default --set train.dropout=0.1 --set train.clip=0.5
}

@test "6 and 7 micro-batches, which the ranks divide unevenly" {
    equal "4" default --set train.accumulate=6
    equal "3" default --set train.accumulate=7
}

@test "bf16, and two threads" {
    equal "2" default --set train.dtype=bf16
    thin many default --set train.dtype=bf16
    ranks 2 "${words[@]}" -t 2
    same one many
}

@test "capacity: drops, and reassignment" {
    equal "3" default --set moe.capacity_factor=1 --set moe.overflow=drop --set moe.priority=gate
    equal "2" default --set moe.capacity_factor=1 --set moe.overflow=reassign --set moe.top_k=1 \
        --set router.plugin=tia_r --set train.recompute=light
}

@test "routers with noise, with state, and those that choose tokens" {
    equal "2" default --set router.plugin=noisy_topk
    equal "3" default --set router.plugin=sigmoid_bias --set controller.b.plugin=expert_bias
    equal "2" default --set router.plugin=expert_choice --set moe.force_causal=yes
}

@test "optimizers that see whole matrices" {
    equal "2" default --set train.optimizer=muon
    equal "3" default --set train.optimizer=adafactor
}

@test "classes, with attention experts" {
    for i in $(seq 60); do echo "a fine film $i	pos"; echo "so dull a plot $i	neg"; done >train.tsv
    equal "3" tagat-balanced --set data.path="$PWD/train.tsv" --set data.val_path="$PWD/train.tsv" \
        --set model.vocab=auto
}

@test "heads that a controller measures and prunes" {
    equal "2" default --set model.head_gates=yes --set train.steps=12 --set controller.s.plugin=sentinel \
        --set controller.s.every=2 --set controller.s.rate=20 --set controller.s.warmup=2 \
        --set controller.s.select=worst --set controller.s.max_pruned=0.4 --set controller.s.grace=100 \
        --set controller.s.entropy_high=0.1 --set controller.s.keep=1 --set controller.s.patience=0
    grep -q '"turns"' one/metrics.jsonl
}

@test "traces of the routing are those of one process" {
    thin one default --set trace.every=2
    "$MOEFW" "${words[@]}"
    thin many default --set trace.every=2
    ranks 3 "${words[@]}"
    same one many
    for file in one/trace/*; do
        run "$MOEFW" trace diff "$file" "many/trace/${file##*/}" --tolerance 0
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *" 0 "* ]]
    done
}

@test "a run is resumed on another number of ranks: 2, 3, 1" {
    thin one default --set train.save_every=2
    "$MOEFW" "${words[@]}"
    thin many default --set train.save_every=2
    ranks 2 "${words[@]}"
    cut() { # CHECKPOINT: forgets what came later
        rm -rf many/ckpt/step-6
        [ "$1" = 4 ] || rm -rf many/ckpt/step-4
        echo "step-$1" >many/ckpt/latest
    }
    cut 2
    ranks 3 train many --resume -q -t 1
    same one many
    cut 4
    "$MOEFW" train many --resume -q -t 1
    same one many
}

@test "small messages" {
    MOEFW_COMM_CHUNK=1000 equal "2" default
}

@test "doctor names the modules" {
    run "$MOEFW" doctor
    [[ "$output" =~ communicators\ +openmpi ]]
}

@test "the program itself needs no MPI" {
    run ! bash -c "ldd '$builddir/moefw' '$builddir/libmoefw.so.0' | grep -i mpi"
}

# refused CODE TEXT: the last command printed one message of moefw, with this text
refused() {
    echo "$output"
    [ "$status" -eq "$1" ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
    grep -q "^moefw: .*$2" <<<"$output"
    [ ! -e x ]
}

@test "more ranks than micro-batches, and wrong configurations: one message, nothing written" {
    thin x default --set train.accumulate=2
    run ranks 3 "${words[@]}"
    refused 2 "3 ranks, but train.accumulate = 2"
    thin x default --set train.btach=2
    run ranks 2 "${words[@]}"
    refused 2 "unknown key 'btach'"
    thin x default --set parallel.comm=nothing
    run ranks 2 "${words[@]}"
    refused 6 "no communicator module comm/nothing.so"
}

@test "another configuration on one rank" {
    thin x default
    run timeout 60 "$mpirun" -n 1 "$MOEFW" "${words[@]}" : -n 1 "$MOEFW" "${words[@]}" --set train.lr=0.5 3>&-
    refused 4 "rank 1 (.*) has another configuration than rank 0"
}

@test "other kernels on one rank" {
    thin x default
    run timeout 60 "$mpirun" -n 1 "$MOEFW" "${words[@]}" : -n 1 env MOEFW_ISA=generic "$MOEFW" "${words[@]}" 3>&-
    refused 4 "rank 1 (.*) has other kernels"
}

@test "a rank that fails alone ends all with its code and message" {
    thin x default
    mkdir x
    : >x/file
    run ranks 2 "${words[@]}"
    echo "$output"
    [ "$status" -eq 2 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
    grep -q "contains files\|not empty\|--resume" <<<"$output"
}

@test "diverged: one message, the code of one process" {
    thin one default --set train.lr=1e3 --set train.warmup=0 --set train.clip=0
    run "$MOEFW" "${words[@]}" --set train.steps=40
    [ "$status" -eq 5 ]
    thin many default --set train.lr=1e3 --set train.warmup=0 --set train.clip=0
    run ranks 2 "${words[@]}" --set train.steps=40
    echo "$output"
    [ "$status" -eq 5 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
}

# begin OUT WORDS...: starts an endless run on 2 ranks, and waits for its first checkpoint
begin() {
    local i out=$1
    thin "$@"
    words+=(--set train.save_every=5 --set train.eval_every=0 --set train.schedule=constant
        --set train.steps=1000000)
    timeout -k 5 120 "$mpirun" -n 2 "$MOEFW" "${words[@]}" >log 2>&1 3>&- &
    job=$!
    for i in $(seq 300); do
        [ -e "$out/ckpt/latest" ] && return
        sleep 0.1
    done
    cat log
    return 1
}

# ranks_of OUT: the processes of the run, without the launcher
ranks_of() {
    pgrep -f -- "^$MOEFW train .*--out $1 "
}

# gone OUT: no process of the run is left, after ten seconds at most
gone() {
    local i
    for i in $(seq 100); do
        ranks_of "$1" >/dev/null || return 0
        sleep 0.1
    done
    return 1
}

# ended: the launcher ends; its status is in `status`
ended() {
    status=0
    wait "$job" || status=$?
    cat log
}

# goes_on OUT: continued on 3 ranks, the run has the bits of one process that was never stopped
goes_on() {
    local newest
    newest=$1/ckpt/$(cat "$1/ckpt/latest")
    "$MOEFW" ckpt verify "$newest"
    steps=$((${newest##*step-} + 7))
    sed -i "s/^steps = .*/steps = $steps/" "$1/config.ini"
    ranks 3 train "$1" --resume -q -t 1
    "$MOEFW" train "$1/config.ini" -q -t 1 --out whole
    cmp "$1/ckpt/step-$steps/model.safetensors" "whole/ckpt/step-$steps/model.safetensors"
    cmp "$1/ckpt/step-$steps/state.safetensors" "whole/ckpt/step-$steps/state.safetensors"
}

@test "a rank is killed: the others end, and the run goes on from its checkpoint" {
    begin cut default
    sleep "0.$((RANDOM % 10))"
    kill -KILL "$(ranks_of cut | tail -n 1)"
    ended
    [ "$status" -eq 137 ]
    gone cut
    goes_on cut
}

@test "a rank stands still: for a moment, and longer than parallel.patience" {
    begin still default --set parallel.patience=3
    victim=$(ranks_of still | tail -n 1)
    kill -STOP "$victim"
    sleep 1
    kill -CONT "$victim"
    sleep 0.5
    kill -STOP "$victim"
    ended
    [ "$status" -eq 7 ]
    grep -q 'moefw: rank 0 (.*no answer from rank 1 (.*) for 3 s (parallel.patience)' log
    gone still
    goes_on still
}

@test "a signal for the launcher, or for one rank, stops all with one checkpoint" {
    begin asked default
    kill -TERM "$(ranks_of asked | tail -n 1)"
    ended
    [ "$status" -eq 143 ]
    [ "$(grep -c '^moefw: stopped by signal 15 at step' log)" -eq 1 ]
    gone asked
    goes_on asked
    rm -rf asked whole
    begin asked default
    kill -TERM "$(pgrep -P "$job")" # the launcher, below timeout
    ended
    [ "$status" -ne 0 ]
    gone asked
    grep -q '^moefw: stopped by signal 15 at step' log
    goes_on asked
}

@test "SIGUSR1 to one rank saves a checkpoint at once" {
    begin saved default
    newest=$(cat saved/ckpt/latest)
    kill -USR1 "$(ranks_of saved | tail -n 1)"
    sleep 1
    kill -TERM "$(ranks_of saved | head -n 1)"
    ended
    [ "$status" -eq 143 ]
    [ "$(cat saved/ckpt/latest)" != "$newest" ]
}

@test "a plugin that is not the same everywhere is named at the next save" {
    mkdir p
    "${CC:-cc}" -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
        -o p/kmeans.so "$srcdir/tests/foreign/kmeans.c" -lm
    thin x default --plugin "$PWD/p/kmeans.so"
    run ranks 2 "${words[@]}"
    echo "$output"
    [ "$status" -eq 4 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
    grep -q '^moefw: .*layers.0.router.* differs between rank 0 and rank 1' <<<"$output"
}

@test "evaluation at the end of a run that is complete" {
    thin one default
    "$MOEFW" "${words[@]}"
    ranks 2 train one --resume -q -t 1
}

@test "MPICH gives the same bits" {
    RANKS_MPI=mpich ranks_setup
    equal "3" default
    thin x default --set parallel.comm=openmpi
    run ranks 2 "${words[@]}"
    refused 2 "has started 2 processes, but communicator openmpi sees 1"
}
