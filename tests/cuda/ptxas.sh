#!/bin/sh
# ptxas.sh SOURCE ARCH...: compiles the kernels of CUDA with nvcc for each architecture, and prints
# those that spill registers or use local memory, and what ptxas says about matrix instructions that
# wait for each other. Fails if there are some. No GPU is needed.
# shellcheck disable=SC2086
src=$1
shift
nvcc=${NVCC:-nvcc}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
bad=0
for arch; do
    "$nvcc" -std=c++20 -O3 -arch="$arch" -Xptxas -v -I"$src" -I"$src/kernels/cuda" -cubin \
        -o "$scratch/all.cubin" "$src/kernels/cuda/all.cu" >"$scratch/log" 2>&1 || {
        cat "$scratch/log"
        exit 1
    }
    awk -v arch="$arch" '
        /Compiling entry function/ { match($0, /\047[^\047]*\047/); kernel = substr($0, RSTART + 1, RLENGTH - 2); n++ }
        /bytes stack frame/ && !/ 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ {
            print arch ": " kernel ": " $0; bad = 1 }
        /\(C75[0-9][0-9]\)/ { print arch ": " $0; bad = 1 }
        END { print arch ": " n " kernels"; exit bad || n == 0 }' "$scratch/log" || bad=1
done
exit $bad
