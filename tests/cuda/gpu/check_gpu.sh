#!/bin/sh
# check_gpu.sh SOURCE BUILD [PAGE]: checks the backend of CUDA on a GPU: each instruction of device.cuh
# against the emulator (probe.cu), all kernels and ops against the reference, memcheck and racecheck of
# compute-sanitizer, two runs of training with equal bits, training against the CPU, and, if there is
# bats, the tests of training, plugins and imported models of tests/cuda. It writes PAGE
# (check-gpu.md), which can be sent to the project. `make check-gpu` calls it.
#   MOEFW_CHECK_FAKE=1     uses the library that stands for CUDA (tests/cuda/fake): to test this script
#   MOEFW_TEST_KERNELS=... limits the kernels, as in tests/README.md
# The exit status is 0 if all is well, 1 if a check fails, 6 if there is no GPU or no toolkit.
# shellcheck disable=SC2317 # functions of checks are called by name
set -u
export LC_ALL=C # decimals have a point
source=$(cd "$1" && pwd) build=$(cd "$2" && pwd) page=${3:-check-gpu.md}
fake=${MOEFW_CHECK_FAKE:-}
plugins=$build/plugins
[ -z "$fake" ] || plugins=$build/tests/cuda/fake
moefw=$build/moefw
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
export XDG_CONFIG_HOME="$scratch" OMP_WAIT_POLICY=passive

# ---- what is needed ----
missing=
lacks() { missing="$missing$1
"; }
nvcc=${NVCC:-nvcc}
if [ -z "$fake" ]; then
    command -v "$nvcc" >/dev/null || lacks "nvcc, of the CUDA Toolkit 13"
    [ -e "$plugins/backend_cuda.so" ] || lacks "the backend: ./configure --with-cuda=yes, then make"
    nvidia-smi -L 2>/dev/null | grep -q '^GPU 0' || lacks "a GPU with its driver (nvidia-smi lists none)"
else
    [ -e "$plugins/backend_cuda.so" ] || lacks "the library that stands for CUDA: make fake-cuda"
fi
if [ -n "$missing" ]; then
    printf 'check-gpu: these are missing:\n%s' "$missing" | sed '2,$s/^/  /' >&2
    exit 6
fi

# ---- the page ----
failed=0
{
    echo "# The CUDA backend on a GPU"
    echo
    [ -z "$fake" ] || echo "On the library that stands for CUDA: this page tells nothing of a GPU."
    echo
    echo '```'
    date -u '+%F %H:%M UTC'
    "$moefw" --version
    git -C "$source" describe --always --dirty 2>/dev/null
    [ -n "$fake" ] || nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
    [ -n "$fake" ] || "$nvcc" --version | tail -n 2
    MOEFW_PLUGIN_PATH=$plugins "$moefw" doctor | grep -A4 '^ *CUDA'
    echo '```'
    echo
    echo "| check | result | seconds | figure |"
    echo "|---|---|---|---|"
} >"$page"
: >"$scratch/more"

# check NAME COMMAND...: a line of the table; the last line of output is its figure. Status 77: not run
check() {
    name=$1
    shift
    begin=$(date +%s)
    (cd "$scratch" && "$@") >"$scratch/log" 2>&1
    case $? in
    0) word=ok ;;
    77) word="not run" ;;
    *) word=FAILED failed=1 ;;
    esac
    printf '| %s | %s | %d | %s |\n' "$name" "$word" $(($(date +%s) - begin)) \
        "$(tail -n 1 "$scratch/log" | tr '|' '/' | cut -c1-160)" | tee -a "$page"
    [ "$word" != FAILED ] || {
        printf '\n## %s\n\n```\n' "$name"
        grep -v '^ok ' "$scratch/log" | tail -n 60
        echo '```'
    } >>"$scratch/more"
}

# ---- checks: functions that row calls by name ----
probe() {
    include="-I$build/include -I$source/include -I$source/core -I$source -I$source/tests/cuda -I$source/kernels/cuda"
    # shellcheck disable=SC2086
    "${CXX:-g++}" -std=c++20 -O1 -Wno-unknown-pragmas -fsanitize=thread $include -x c++ -c \
        "$source/tests/cuda/gpu/probe.cu" -o probe.o &&
        "${CXX:-g++}" probe.o "$build"/tests/cuda/emu.o "$build"/tests/cuda/judge.o \
            "$build"/tests/cuda/late.o "$build"/tests/cuda/traffic.o -o probe_emulated &&
        ./probe_emulated >emulated || return 1
    if [ -n "$fake" ]; then
        echo "no GPU; $(wc -l <emulated) results of the emulator"
        return 77
    fi
    arch=sm_$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
    wgmma=
    [ "$arch" != sm_90 ] || arch=sm_90a
    [ "$arch" != sm_90a ] || ! grep -q MF_HAS_WGMMA "$source/kernels/cuda/device.cuh" || wgmma=-DPROBE_WGMMA
    # shellcheck disable=SC2086
    "$nvcc" -std=c++20 -O2 -arch="$arch" $wgmma $include "$source/tests/cuda/gpu/probe.cu" -o probe_gpu &&
        ./probe_gpu >gpu || return 1
    # an architecture without an instruction says so, and has no results of it
    grep '^wgmma none' gpu && grep -v '^wgmma' emulated >same && mv same emulated
    grep -v '^wgmma none' gpu >same && mv same gpu
    diff emulated gpu | head -n 40
    cmp emulated gpu && echo "$(wc -l <gpu) results, all as on the emulator"
}

# unit PROGRAM CASE WORDS...: a program of unit tests on the device, called by `WORDS... program`, of which
# env is the last; without CASE all cases. All tests of a program are one process, since the begin of
# CUDA in each of some thousand would take half an hour
unit() {
    program=$build/tests/unit/$1 case_=$2
    shift 2
    CK_FORK=no MOEFW_PLUGIN_PATH=$plugins MOEFW_TEST_DEVICE=cuda "$@" ${case_:+"CK_RUN_CASE=$case_"} "$program" >unit.log 2>&1
    status=$?
    grep -v '^ok ' unit.log | tail -n 60
    n=$(grep -c '^ok ' unit.log)
    bad=$(grep -c '^not ok ' unit.log)
    echo "$n passed, $bad failed"
    [ "$status" -eq 0 ] && [ "$n" -gt 0 ] && [ "$bad" -eq 0 ]
}

# nvjet: kernels of cuBLASLt, in whose copies of whole tiles racecheck sees races
sanitized() {
    if [ -n "$fake" ]; then
        echo "compute-sanitizer needs a GPU"
        return 77
    fi
    command -v compute-sanitizer >/dev/null || {
        echo "no compute-sanitizer (package cuda-sanitizer of the toolkit)"
        return 77
    }
    MOEFW_TEST_EVERY=${MOEFW_TEST_EVERY:-3} unit kernels/check_kernels "cpu against ref" \
        compute-sanitizer --tool "$1" --kernel-name-exclude kns=nvjet --error-exitcode 1 --print-limit 20 --target-processes all env
}

small="--set model.dim=64 --set model.layers=2 --set model.heads=2 --set model.seq=32 --set train.batch=4
    --set moe.experts=8 --set data.path=builtin:topics?bytes=40000 --set data.tokenizer=byte
    --set train.schedule=constant --set train.log_every=1 --set train.eval_every=0
    --set train.eval_context=0 --set train.eval_batches=1 --set train.final_batches=1 --set report.enabled=no"
# trained OUT DEVICE DTYPE: ten steps
trained() {
    # shellcheck disable=SC2086
    MOEFW_PLUGIN_PATH=$plugins "$moefw" train default $small --steps 10 -q --out "$1" \
        --set train.device="$2" --set train.dtype="$3"
}
weights() { cat "$1/ckpt/$(cat "$1/ckpt/latest")/model.safetensors"; }
losses() { sed -nE '/"split":"train"/s/.*"loss":([^,]*),.*/\1/p' "$1/metrics.jsonl"; }

same_bits() {
    for dtype in f32 bf16; do
        trained "a-$dtype" cuda "$dtype" && trained "b-$dtype" cuda "$dtype" || return 1
        weights "a-$dtype" >a.weights && weights "b-$dtype" >b.weights
        cmp a.weights b.weights || return 1
        [ "$(losses "a-$dtype")" = "$(losses "b-$dtype")" ] || return 1
    done
    echo "$(wc -c <a.weights) bytes of weights twice, in f32 and bf16"
}
# against DTYPE BOUND: losses of the CPU, after same_bits
against() {
    trained "cpu-$1" cpu "$1" || return 1
    losses "cpu-$1" >cpu.losses
    losses "a-$1" >gpu.losses
    paste cpu.losses gpu.losses | awk -v bound="$2" '
        { far = $1 > $2 ? $1 - $2 : $2 - $1; if (far > most) most = far }
        END { printf "%d losses, at most %.2g apart, bound %s\n", NR, most, bound; exit NR < 10 || most > bound }'
}

# tests FILE...: files of bats, on this device
tests() {
    if [ -n "$fake" ]; then
        echo "make check runs them"
        return 77
    fi
    command -v bats >/dev/null || {
        echo "no bats"
        return 77
    }
    status=0
    for file; do
        env srcdir="$source" builddir="$build" MOEFW="$moefw" MOEFW_GPU=1 MOEFW_FAKE="$plugins" \
            bats --tap "$source/tests/cuda/$file.bats" >>bats.log 2>&1 || status=1
    done
    grep -v '^ok ' bats.log | tail -n 60
    echo "$(grep '^ok ' bats.log | grep -vc '# skip') passed, $(grep -c '^not ok ' bats.log) failed"
    return "$status"
}

if ! { make -s -C "$build" check TESTS= && make -s -C "$build" emulator; } >"$scratch/make.log" 2>&1; then
    tail -n 20 "$scratch/make.log"
    exit 1
fi
check "instructions against the emulator" probe
check "kernels against ref" unit kernels/check_kernels "cpu against ref" env
check "queues, copies, recordings" unit graph/check_queue "" env
[ -n "$fake" ] || check "ops: values and gradients" unit ops/check_ops "" env
check "memcheck" sanitized memcheck
check "racecheck" sanitized racecheck
check "two runs, equal bits" same_bits
check "training in f32 against the CPU" against f32 1e-4
check "training in bf16 against the CPU" against bf16 3e-2
check "systems, plugins, imported models" tests training plugins stored
cat "$scratch/more" >>"$page"
echo "the page is $page"
exit $failed
