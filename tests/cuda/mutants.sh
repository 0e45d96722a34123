#!/bin/sh
# mutants.sh SOURCE BUILD [NAME...]: plants one fault after another in the kernels of CUDA, and
# says whether check_kernels on the emulator finds it, and by what: a finding of the emulator, or
# wrong numbers. Fails if one is not found. BUILD has `make emulator` and check_kernels. A fault
# takes half a minute of processor time: all.cu is compiled for each.
src=$(cd "$1" && pwd) build=$(cd "$2" && pwd) || exit 2
shift 2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
objects=
for o in backend_emu emu judge late traffic; do
    objects="$objects $build/tests/cuda/$o.o"
done

# Name, file, kernel, family of cases, what sed does to the file.
faults() {
    cat <<'END'
wait	gemm_bf16.cuh	gemm	aligned	s/mf_copy_wait<MF_STAGES - 2>/mf_copy_wait<MF_STAGES - 1>/
barrier	gemm_bf16.cuh	gemm	aligned	s@__syncthreads(); /\* all have copied.*@@
split	gemm_bf16.cuh	gemm	aligned	s@mf_fragment<B_ALONG>(warp / 2 \* 64, 16)@mf_fragment<B_ALONG>(warp / 2 * 64, 8)@
list	gemm_bf16.cuh	gemm	aligned	s/half + 2 \* i/half + i/
pairs	gemm_bf16.cuh	gemm	aligned	s/pairs && c + 1 < g.n/pairs/
in-place	norm.cuh	norm_backward	layers	s/const bool in_place = .*/const bool in_place = false;/
END
}

# try NAME FILE KERNEL FAMILY SED
try() {
    tree=$scratch/$1
    mkdir -p "$tree/kernels" && cp -r "$src/kernels/cuda" "$tree/kernels/" || return 2
    sed -i "$5" "$tree/kernels/cuda/$2"
    if cmp -s "$tree/kernels/cuda/$2" "$src/kernels/cuda/$2"; then
        echo "$1: $2 has no such place"
        return 1
    fi
    "${CXX:-g++}" -I"$build/include" -I"$src/include" -I"$src/core" -I"$tree" -I"$src" \
        -I"$src/tests/cuda" -I"$tree/kernels/cuda" -std=c++20 -fPIC -O1 -g1 -w -x c++ \
        -fsanitize=thread -c "$tree/kernels/cuda/all.cu" -o "$tree/all.o" || return 2
    # shellcheck disable=SC2086
    "${CXX:-g++}" -shared -Wl,-Bsymbolic -o "$tree/backend_emu.so" "$tree/all.o" $objects || return 2
    MOEFW_TEST_KERNELS=$3 MOEFW_TEST_FAMILY=$4 MOEFW_TEST_DEVICE=emu MOEFW_PLUGIN_PATH=$tree \
        CK_RUN_CASE="cpu against ref" "$build/tests/unit/kernels/check_kernels" >"$tree/log" 2>&1
    if grep -q '^not ok .*the emulator has' "$tree/log"; then
        echo "$1: found by the emulator"
    elif grep -q '^not ok .*off by' "$tree/log"; then
        echo "$1: found by wrong numbers"
    else
        echo "$1: not found"
        return 1
    fi
}

bad=0 tab=$(printf '\t')
faults >"$scratch/faults"
while IFS=$tab read -r name file kernel family change <&3; do
    case " $* " in
    *" $name "* | "  ") try "$name" "$file" "$kernel" "$family" "$change" || bad=1 ;;
    esac
    rm -rf "${scratch:?}/$name"
done 3<"$scratch/faults"
exit $bad
