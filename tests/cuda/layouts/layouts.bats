# Where the emulator and the device code have the elements of matrix instructions, compared with CuTe.
# MOEFW_CUTE is the folder with its headers, which this repository does not have.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/emulator.bash"

setup_file() {
    LACKING=$(lacking) # old versions of bats cannot skip here
    nvcc=$(command -v "${NVCC:-nvcc}") && CUDA_INCLUDE=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
    if [ ! -e "$MOEFW_CUTE/cute/tensor.hpp" ]; then
        LACKING="no headers of CuTe: set MOEFW_CUTE to their folder"
    elif [ ! -e "$CUDA_INCLUDE/cuda_runtime_api.h" ]; then
        LACKING="no headers of CUDA"
    fi
    export LACKING CUDA_INCLUDE
    [ -z "$LACKING" ] || return 0
    made emulator
    "${CXX:-g++}" -std=c++20 -O1 -w -I"$MOEFW_CUTE" -I"$CUDA_INCLUDE" -I"$CUDA_INCLUDE/cccl" \
        -c "$srcdir/tests/cuda/layouts/layouts.cc" -o "$BATS_FILE_TMPDIR/layouts.o"
}

setup() {
    [ -z "$LACKING" ] || skip "$LACKING"
    cd "$BATS_FILE_TMPDIR" || exit 1
}

# compared SOURCE: the last line of the comparison with this file of ours
compared() {
    "${CXX:-g++}" -std=c++20 -O2 -fsanitize=thread -I"$builddir/include" -I"$srcdir/include" \
        -I"$srcdir/core" -I"$srcdir" -I"$srcdir/tests/cuda" -I"$srcdir/tests/cuda/layouts" -I"$srcdir/kernels/cuda" -c "$1" -o ours.o
    "${CXX:-g++}" -o layouts layouts.o ours.o "$builddir"/tests/cuda/{emu,judge,late,traffic}.o
    run ./layouts
    echo "$output"
    last=${lines[-1]}
}

@test "all places are those of CuTe" {
    compared "$srcdir/tests/cuda/layouts/layouts_emu.cc"
    [ "$status" -eq 0 ]
    [[ "$last" =~ ^([0-9]+)" places compared, 0 differ"$ ]]
    [ "${BASH_REMATCH[1]}" -ge 1536 ]
}

@test "other places are found: of a fragment, of ldmatrix, of the swizzle" {
    for fault in 's/b_row(lane, i), emu/b_row(lane, i ^ 1), emu/' 's/from + 8 \* l/from + 8 * (l ^ 1)/' \
        's/row % 8) \* 16/row % 4) * 16/'; do
        sed "$fault" "$srcdir/tests/cuda/layouts/layouts_emu.cc" >fault.cc
        run -1 cmp -s fault.cc "$srcdir/tests/cuda/layouts/layouts_emu.cc"
        compared fault.cc
        [ "$status" -eq 1 ]
        [[ "$last" != *" 0 differ" ]]
    done
}
