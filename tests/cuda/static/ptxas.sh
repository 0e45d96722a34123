#!/bin/sh
# ptxas.sh [-v] SOURCE ARCH...: compiles the kernels of CUDA with nvcc for each architecture, and checks
# what it made of them against rules.tsv and rest.tsv: registers, blocks a multiprocessor, instructions
# of main loops, local memory, and what ptxas says about matrix instructions that wait for each other.
# A warning of nvcc is an error.
# -v prints each kernel that has a rule. No GPU is needed. NVCC and NVDISASM name the programs; the
# exit status is 77 if one of them is missing. MOEFW_CUBIN keeps ARCH.log and ARCH.sass in a folder.
# shellcheck disable=SC2086
show=
if [ "$1" = -v ]; then
    show=1
    shift
fi
src=$1
shift
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null || {
    echo "no nvcc"
    exit 77
}
disassembler=${NVDISASM:-nvdisasm}
command -v "$disassembler" >/dev/null || disassembler=$(dirname "$(readlink -f "$(command -v "$nvcc")")")/nvdisasm
command -v "$disassembler" >/dev/null || {
    echo "no nvdisasm (package cuda-nvdisasm of the toolkit, or NVDISASM=FILE)"
    exit 77
}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
bad=0
for arch; do
    "$nvcc" -std=c++20 -O3 -arch="$arch" -Xptxas -v -I"$src" -I"$src/include" -I"$src/kernels/cuda" \
        -cubin -o "$scratch/all.cubin" "$src/kernels/cuda/all.cu" >"$scratch/$arch.log" 2>&1 || {
        cat "$scratch/$arch.log"
        exit 1
    }
    "$disassembler" -c "$scratch/all.cubin" >"$scratch/$arch.sass" || exit 1
    tables=$src/tests/cuda/static
    awk -v arch="$arch" -v show="$show" -f "$tables/static.awk" file=1 "$tables/rules.tsv" \
        file=2 "$tables/rest.tsv" file=3 "$scratch/$arch.log" file=4 "$scratch/$arch.sass" || bad=1
    grep -A 1 'warning' "$scratch/$arch.log" && bad=1
    [ -z "$MOEFW_CUBIN" ] || cp "$scratch/$arch.log" "$scratch/$arch.sass" "$MOEFW_CUBIN/"
done
exit $bad
