#!/bin/sh
# mutants.sh kernels|host SOURCE BUILD [NAME...]: plants one fault after another (mutants.tsv,
# mutants_host.tsv), and says whether a test finds it, and by what. Fails if one is not found, or does
# not change its file. Several may run at once; nothing is written in SOURCE or BUILD.
#   kernels  faults in kernels of CUDA, which check_kernels has to find on the emulator: by one of its
#            findings, by wrong numbers or by a crash. BUILD has `make emulator` and check_kernels.
#            Only the file with the fault is compiled; the linker takes its functions before those of
#            all.cu, so a fault takes seconds.
#   host     faults in the host code of the backend, which tests of backend.bats and device_code.bats have to find.
#            BUILD has the program, `make fake-cuda` and `make check TESTS=`.
kind=$1 src=$(cd "$2" && pwd) build=$(cd "$3" && pwd) || exit 2
shift 3
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
include="-I$build/include -I$src/include -I$src/core"
objects=
for o in judged backend_emu emu judge late traffic; do
    objects="$objects $build/tests/cuda/$o.o"
done

# plant NAME FILE SED: a copy of the backend with the fault, in $tree
plant() {
    tree=$scratch/$1
    mkdir -p "$tree/kernels" && cp -r "$src/kernels/cuda" "$tree/kernels/" || return 2
    sed -i "$3" "$tree/kernels/cuda/$2" || return 2
    ! cmp -s "$tree/kernels/cuda/$2" "$src/kernels/cuda/$2" && return
    echo "$1: $2 has no such place"
    return 1
}

# What the emulator calls its findings
kinds='race|bounds|first use|host memory|align|launch|barrier|deadlock|warp|shuffle|mma|cp\.async|ldmatrix|wgmma|proxy'

# said PATTERN: the first line of the log that has it
said() {
    grep -m 1 "$1" "$tree/log"
}

# kernel NAME FILE COMPILED KERNELS FAMILY SED
kernel() {
    plant "$1" "$2" "$6" || return
    [ "$3" = - ] && set -- "$1" "$2" "$2" "$4" "$5"
    echo "#include \"$3\"" >"$tree/one.cu"
    # shellcheck disable=SC2086
    ${CXX:-g++} -I"$tree/kernels/cuda" $include -I"$tree" -I"$src" -I"$src/tests/cuda" -std=c++20 \
        -fPIC -O1 -g1 -w -x c++ -fsanitize=thread -c "$tree/one.cu" -o "$tree/one.o" || return 2
    # shellcheck disable=SC2086
    ${CXX:-g++} -shared -Wl,-Bsymbolic,-z,muldefs -o "$tree/backend_emu.so" "$tree/one.o" $objects ||
        return 2
    arch=80
    case $1 in wg-*) arch=90 ;; esac # kernels that run there alone
    MOEFW_EMU_ARCH=$arch MOEFW_TEST_KERNELS=$4 MOEFW_TEST_FAMILY=$5 MOEFW_TEST_DEVICE=emu MOEFW_PLUGIN_PATH=$tree CK_FORK=no \
        CK_RUN_CASE="cpu against ref" "$build/tests/unit/kernels/check_kernels" >"$tree/log" 2>&1
    status=$?
    if said '^not ok .*the emulator has' >/dev/null; then
        what=$(grep -oEm 1 ": ($kinds): " "$tree/log")
        echo "$1: found by the emulator${what%: }"
    elif said '^not ok .*off by' >/dev/null; then
        echo "$1: found by numbers: $(said '^not ok .*off by' | grep -o 'off by [^,]*')"
    elif said '^not ok .*Assertion' >/dev/null; then
        echo "$1: found by a case: $(said '^not ok .*Assertion' | sed 's/.*Assertion//')"
    elif said '^1\.\.' >/dev/null; then
        echo "$1: NOT FOUND"
        return 1
    elif [ "$status" -gt 128 ]; then
        echo "$1: found by a crash, status $status"
    else
        echo "$1: no test ran, status $status: $(head -n 1 "$tree/log")"
        return 2
    fi
}

# host NAME FILE TESTS SED
host() {
    plant "$1" "$2" "$4" || return
    # shellcheck disable=SC2086
    ${CC:-cc} -D_GNU_SOURCE= -I"$tree" $include -I"$src" -I"$src/tests/cuda/include" -std=gnu17 -O1 -w \
        -fPIC -fvisibility=hidden -c "$tree/kernels/cuda/$2" -o "$tree/one.o" || return 2
    rest=
    for o in backend code lt memory peak queue; do
        [ "$o.c" = "$2" ] || rest="$rest $build/tests/cuda/fake/$o.o"
    done
    cp "$build"/tests/cuda/fake/lib*.so.13 "$tree/" || return 2
    # shellcheck disable=SC2086,SC2016
    ${CXX:-g++} -shared -Wl,-Bsymbolic -Wl,-rpath,'$ORIGIN' \
        -Wl,--version-script="$src/kernels/cuda/backend.map" -o "$tree/backend_cuda.so" "$tree/one.o" $rest \
        "$build/tests/cuda/plain.o" "$tree/libcudart.so.13" "$tree/libcublasLt.so.13" || return 2
    MOEFW_FAKE=$tree srcdir=$src builddir=$build MOEFW=${MOEFW:-$build/moefw} "${BATS:-bats}" --tap \
        -f "$3" "$src/tests/cuda/backend.bats" "$src/tests/cuda/device_code.bats" >"$tree/log" 2>&1
    if said '^not ok .*setup' >/dev/null; then
        echo "$1: no test ran: $(said '^not ok .*setup')"
        return 2
    elif said '^not ok' >/dev/null; then
        echo "$1: found by: $(said '^not ok' | sed 's/^not ok [0-9]* //; s/ # .*//')"
    elif said '^ok' | grep -qv '# skip'; then
        echo "$1: NOT FOUND"
        return 1
    else
        echo "$1: no test ran"
        return 2
    fi
}

bad=0 tab=$(printf '\t') table=$src/tests/cuda/mutants.tsv
case $kind in
kernels) ;;
host) table=$src/tests/cuda/mutants_host.tsv ;;
*) echo "mutants.sh: unknown '$kind' (expected kernels or host)" >&2; exit 2 ;;
esac
grep -v '^#' "$table" >"$scratch/faults"
while IFS=$tab read -r name file a b c d <&3; do
    case " $* " in
    *" $name "* | "  ")
        if [ "$kind" = kernels ]; then
            kernel "$name" "$file" "$a" "$b" "$c" "$d" || bad=1
        else
            host "$name" "$file" "$a" "$b" || bad=1
        fi
        ;;
    esac
    rm -rf "${scratch:?}/$name"
done 3<"$scratch/faults"
exit $bad
