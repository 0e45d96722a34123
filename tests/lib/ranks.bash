# What tests of runs with several ranks share: launchers, and comparison with one process.
# shellcheck shell=bash

# ranks_setup: skips where a launcher or its module is missing; RANKS_MPI: openmpi (default) or mpich
ranks_setup() {
    mpi=${RANKS_MPI:-openmpi}
    [ -e "$builddir/plugins/comm/$mpi.so" ] || skip "no communicator module for $mpi was built"
    case $mpi in
        openmpi) title='Open MPI\|OpenRTE\|Open MPI' ;;
        mpich) title='HYDRA' ;;
    esac
    for mpirun in "mpirun.$mpi" mpirun ""; do
        [ -n "$mpirun" ] || skip "no mpirun of $mpi"
        command -v "$mpirun" >/dev/null && "$mpirun" --version 2>&1 | grep -q "$title" && break
    done
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" # MPI keeps memory until the process ends
    export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

# ranks N WORDS...: moefw on N ranks
ranks() {
    local n=$1
    shift
    # The slow group runs beside other work, and more ranks than cores wait for each other.
    timeout -k 5 "$((120 * (${MOEFW_SLOW:+4} + 1)))" "$mpirun" -n "$n" "$MOEFW" "$@" 3>&-
}

# timeless FILE: lines of metrics.jsonl without what depends on the machine
timeless() {
    sed -E 's/"(tokens_per_s|wall_s)":[^,}]*//g' "$1"
}

# same RUN RUN2: both have the same checkpoints and the same metrics, byte by byte
same() {
    local step
    cmp <(timeless "$1/metrics.jsonl") <(timeless "$2/metrics.jsonl") || return 1
    [ "$(ls "$1/ckpt")" = "$(ls "$2/ckpt")" ] || return 1
    for step in "$1"/ckpt/step-*; do
        cmp "$step/model.safetensors" "$2/ckpt/${step##*/}/model.safetensors" || return 1
        cmp "$step/state.safetensors" "$2/ckpt/${step##*/}/state.safetensors" || return 1
    done
}

# thin OUT WORDS...: the words of a small run of 6 steps of 4 micro-batches
thin() {
    local out=$1
    shift
    words=(train "$@" -q -t 1 --out "$out" --set model.dim=32 --set model.layers=2 --set model.seq=16
        --set train.batch=2 --set train.steps=6 --set train.warmup=2 --set train.log_every=1
        --set train.eval_context=0 --set train.eval_every=3 --set train.eval_batches=3 --set train.final_batches=5
        --set train.save_every=3 --set report.enabled=no)
    case " $* " in
        *accumulate*) ;;
        *) words+=(--set train.accumulate=4) ;;
    esac
    case " $* " in
        *data.path*) ;;
        *) words+=(--set "data.path=builtin:topics?bytes=20000") ;;
    esac
}

# built NAME: a plugin of tests/plugins/third_party as p/NAME.so
built() {
    mkdir -p p
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
        -o "p/$1.so" "$srcdir/tests/plugins/third_party/$1.c" -lm
}

# sent RANKS STEPS WORDS...: the bytes that rank 0 sends in a run of so many steps
sent() {
    rm -rf count
    thin count default "${@:3}"
    words+=(--set train.steps="$2" --set train.eval_every=0 --set train.save_every=0)
    words=("${words[@]/#-q/-v}")
    ranks "$1" "${words[@]}" 2>&1 | sed -n 's/.*rank 0 of .* has sent \([0-9]*\) bytes.*/\1/p'
}

# refused CODE TEXT: the last command printed one message of moefw, with this text
refused() {
    echo "$output"
    [ "$status" -eq "$1" ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
    grep -q "^moefw: .*$2" <<<"$output"
    [ ! -e x ]
}

# equal "RANKS..." WORDS...: runs with so many ranks, which also get the words of the array `more`,
# equal that of one process
equal() {
    local counts=$1 n
    shift
    rm -rf one many
    thin one "$@"
    "$MOEFW" "${words[@]}"
    for n in $counts; do
        thin many "$@" "${more[@]}"
        ranks "$n" "${words[@]}" || return 1
        same one many || return 1
        rm -rf many
    done
}

# begin OUT WORDS...: starts an endless run on 2 ranks (or as many as RANKS says), and waits for its first
# checkpoint; every: save_every
begin() {
    local i out=$1 first=ckpt/latest
    thin "$@"
    [ "${every:-5}" -gt 0 ] || first=metrics.jsonl
    words+=(--set train.save_every="${every:-5}" --set train.eval_every=0 --set train.schedule=constant
        --set train.steps=1000000)
    timeout -k 5 120 "$mpirun" -n "${RANKS:-2}" "$MOEFW" "${words[@]}" >log 2>&1 3>&- &
    job=$!
    for i in $(seq 300); do
        [ -s "$out/$first" ] && return
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

# goes_on OUT [RANKS]: continued on 3 ranks or so many, the run has the bits of one process that was never stopped
goes_on() {
    local newest
    newest=$1/ckpt/$(cat "$1/ckpt/latest")
    "$MOEFW" ckpt verify "$newest"
    steps=$((${newest##*step-} + 7))
    sed -i "s/^steps = .*/steps = $steps/" "$1/config.ini"
    ranks "${2:-3}" train "$1" --resume -q -t 1
    "$MOEFW" train "$1/config.ini" -q -t 1 --out whole
    cmp "$1/ckpt/step-$steps/model.safetensors" "whole/ckpt/step-$steps/model.safetensors"
    cmp "$1/ckpt/step-$steps/state.safetensors" "whole/ckpt/step-$steps/state.safetensors"
}
