#!/bin/sh
# headers.sh: each header compiles alone. Public headers also compile as older C and as C++, without
# a warning, because third parties include them in their sources.
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# compile COMPILER... HEADER FILE: prints the message if it does not compile
compile() {
    printf '#include "%s"\nextern int moefw_lint_unit;\n' "$header" >"$file"
    "$@" -c "$file" -o "$scratch/t.o" 2>&1 | head -5
}

public=$(sources include -- '*.h' | sed 's,^include/,,')
[ -f "$builddir/include/moefw/version.h" ] && public="$public moefw/version.h"

check_public() {
    title=$1 file=$scratch/t.$2
    shift 2
    report "$title" "$(for header in $public; do
        compile "$@" -pedantic -Wall -Wextra -Werror -I"$srcdir/include" -I"$builddir/include"
    done)"
}

# $CC may hold options.
# shellcheck disable=SC2086
for std in c11 c17; do
    check_public "public headers compile alone as $std" c $CC -std=$std
done
cxx=
for c in "${CXX:-}" g++ clang++; do # CXX may hold several words, as `ccache g++`
    command -v "${c%% *}" >/dev/null 2>&1 && cxx=$c && break
done
for std in c++11 c++20; do
    if [ -n "$cxx" ]; then
        # shellcheck disable=SC2086
        check_public "public headers compile alone as $std" cc $cxx -std=$std
    else
        skip "public headers compile alone as $std" "no C++ compiler"
    fi
done

file=$scratch/t.c
# shellcheck disable=SC2086
report "each header of the three floors compiles alone" "$(for header in $(sources core lib tools -- '*.h' | sed 's,^[a-z]*/,,'); do
    compile $CC -std=c17 -D_GNU_SOURCE= -Wall -Wextra -Werror -I"$builddir" -I"$builddir/include" \
        -I"$srcdir/include" -I"$srcdir/core" -I"$srcdir/lib" -I"$srcdir/tools" -I"$srcdir"
done)"

report "the ABI number of configure.ac is that of the headers" "$(
    a=$(sed -n 's/^AC_SUBST(\[MOEFW_ABI\], \[\([0-9]*\)\])$/\1/p' "$srcdir/configure.ac")
    b=$(sed -n 's/^#define MF_ABI \([0-9]*\)u.*/\1/p' "$srcdir"/include/moefw/*.h)
    [ -n "$a" ] && [ "$a" = "$b" ] || echo "configure.ac: MOEFW_ABI $a; headers: MF_ABI $b"
)"
done_testing
