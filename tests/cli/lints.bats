# Every lint can fail: each is run on a small tree that breaks its rule.

setup() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/{core/base,tools/cli,core/ops,kernels/ref,kernels/cpu,plugins/routers,include/moefw,build-aux,tests/unit,etc,share,man,.ci}
    : >"$tree/.ci/run"
    for folder in core kernels plugins include/moefw etc share man tests; do : >"$tree/$folder/local.mk"; done
}

# lint NAME: runs it on the tree.
lint() {
    run env -u HARNESS_ACTIVE srcdir="$tree" builddir="$tree/build" sh "$srcdir/tests/lint/$1.sh"
}

put() { printf '%s\n' "$2" >"$tree/$1"; }

broken() {
    lint "$1"
    [ "$status" -ne 0 ]
    [[ "$output" == *"not ok"*"$2"* ]]
}

@test "includes: a lower layer that includes a later one" {
    put core/base/a.c '#include "cli/cli.h"'
    broken includes 'core/base/a.c:1: base includes "cli/cli.h"'
}

@test "includes: a plugin, a kernel, a public header that include core" {
    put plugins/routers/p.c '#include "base/mem.h"'
    put kernels/ref/k.c '#include <moefw/status.h>'
    put include/moefw/h.h '#include <stdio.h>'
    broken includes 'kernels/ref/k.c:1: <moefw/status.h>'
    [[ "$output" == *'plugins/routers/p.c:1: "base/mem.h"'* ]]
    [[ "$output" == *'include/moefw/h.h:1: <stdio.h>'* ]]
}

@test "includes: a third-party header outside its file" {
    put core/ops/a.c '#include <jansson.h>'
    put kernels/cpu/other.c '#include <cblas.h>'
    broken includes 'core/ops/a.c:1: jansson.h belongs in lib/io/json.c'
    [[ "$output" == *'cblas.h belongs in kernels/cpu/blas.c'* ]]
}

@test "size: a file with 701 lines" {
    yes '/* line */' | head -701 >"$tree/core/base/long.c"
    broken size 'core/base/long.c: 701 lines'
}

@test "size: a long line in C++, and a long file there and in the modules of MPI" {
    mkdir -p "$tree/tests/cuda" "$tree/comm"
    printf '// %0100d\n' 0 >"$tree/tests/cuda/wide.cc"
    yes '// line' | head -701 >"$tree/tests/cuda/long.hh"
    yes '/* line */' | head -701 >"$tree/comm/long.c"
    broken size 'tests/cuda/wide.cc:1: 103 columns'
    [[ "$output" == *'tests/cuda/long.hh: 701 lines'* ]]
    [[ "$output" == *'comm/long.c: 701 lines'* ]]
}

@test "papers: a system named in the core, also from a folder that is named relatively" {
    mkdir -p "$tree/core/config"
    put core/config/aliases.c 'tagat'
    put core/ops/a.c '/* as in TAGAT */'
    broken papers 'core/ops/a.c:1:/* as in TAGAT */'
    cd "$tree/core"
    run env -u HARNESS_ACTIVE srcdir=.. sh "$srcdir/tests/lint/papers.sh"
    [[ "$output" == *'ok 1 - there are files to look at'* && "$output" == *'core/ops/a.c:1:'* ]]
}

@test "names: a plugin named in the core" {
    put plugins/routers/frob.c ''
    put core/ops/a.c 'if (strcmp(name, "frob") == 0)'
    broken names 'core/ops/a.c:1: "frob"'
}

@test "words: open ends, machine paths, trailing blanks" {
    printf '/* T%s: later */\n' ODO >"$tree/core/base/a.c"
    printf 'open("/h%s/kim/x"); \n' ome >"$tree/core/base/b.c"
    broken words 'core/base/a.c:1'
    [[ "$output" == *'core/base/b.c:1'*'trailing'*'core/base/b.c:1'* ]]
}

@test "bats: a line that cannot fail its test" {
    mkdir "$tree/tests/cli"
    printf '@test "x" {\n    ! true || skip\n    %s grep -q x y\n}\n' '!' >"$tree/tests/cli/a.bats"
    broken bats 'tests/cli/a.bats:3:'
    [[ "$output" != *a.bats:2* ]]
}

@test "sources: a file that no local.mk lists, or that is listed twice" {
    put core/base/a.c ''
    put tests/unit/check_a.c ''
    put man/a.1 ''
    printf 'X += core/b.c\nX += core/b.c\n' >"$tree/core/local.mk"
    broken sources 'core/base/a.c'
    [[ "$output" == *tests/unit/check_a.c*man/a.1*core/b.c* ]]
}

@test "headers: a public header that needs another, or C99" {
    printf '#define MF_ABI 1u\nuint32_t a;\n' >"$tree/include/moefw/h.h"
    broken headers uint32_t
}

@test "symbols: a plugin that exports a second symbol or needs one of the program" {
    mkdir -p "$tree/build/plugins/routers"
    printf 'const int moefw_plugin = 1; void more(void) {}\n' >"$tree/a.c"
    printf 'const int moefw_plugin = 1; void mf_log(void); __attribute__((visibility("hidden"))) void f(void) { mf_log(); }\n' >"$tree/b.c"
    for name in a b; do
        # $CC may hold options.
        # shellcheck disable=SC2086
        $CC -shared -fPIC -o "$tree/build/plugins/routers/$name.so" "$tree/$name.c"
    done
    cp "$MOEFW" "$tree/build/moefw"
    broken symbols 'plugins/routers/a.so: '
    [[ "$output" == *'plugins/routers/b.so: mf_log'* ]]
}

@test "packages: a library that configure requires and no line names" {
    printf 'MF_LIB([Z], [zlib], [zlib.h], [z], [inflate], [zlib1g-dev])\n' >"$tree/configure.ac"
    cp "$srcdir/build-aux/packages.txt" "$tree/build-aux/"
    broken packages zlib1g-dev
}

@test "man: a page with a warning of mandoc" {
    command -v mandoc >/dev/null || skip "no mandoc"
    printf '.Dd $Mdocdate$\n.Dt X 1\n.Os\n.Sh NAME\n.Nm x\n.Bogus\n' >"$tree/man/x.1"
    broken man man/x.1
}

@test "shellcheck: an unquoted variable" {
    command -v shellcheck >/dev/null || skip "no shellcheck"
    printf '#!/bin/sh\nrm $1\n' >"$tree/tests/a.sh"
    broken shellcheck tests/a.sh
}

@test "coverage: shares of a folder without what a failed allocation reaches, and what did not run" {
    command -v gcov gcc >/dev/null || skip "no gcc or gcov"
    cd "$tree" || return 1
    put core/base/a.c '#include <stdlib.h>
enum { MF_OK, MF_ENOMEM };
static int half(int n)
{
    if (n > 4)
        return n / 2;
    return 2 * n;
}
int main(void)
{
    char *p = malloc(10);
    if (!p) return MF_ENOMEM;
    free(p);
    return half(3) != 6;
}'
    gcc -O0 --coverage -o a core/base/a.c
    ./a
    gcov -b -c -t ./*.gcda >text
    run awk -v missing=core -f "$srcdir/tests/coverage.awk" text
    echo "$output"
    # one line did not run; of the branches only those of half count
    [[ "$(echo "$output" | grep '^core/base  ')" == *"  8"[0-9].[0-9]*" 2     50.0" ]]
    [[ "$output" == *"core/base/a.c:6: line: "*"return n / 2;"* ]]
    [[ "$output" == *"core/base/a.c:5: branch 0: "* ]]
    [[ "$output" != *"a.c:12:"* ]]
    run awk -v goal=1 -f "$srcdir/tests/coverage.awk" text
    [ "$status" -eq 1 ]
}

@test "nightly: unknown parts and options are refused before anything is built" {
    run sh "$srcdir/tests/nightly.sh" --out "$tree/night" asan cover
    [ "$status" -eq 2 ]
    [[ "$output" == *"no part 'cover' (expected gcc clang elsewhere bare asan "* ]]
    run sh "$srcdir/tests/nightly.sh" --night
    [ "$status" -eq 2 ]
    [ ! -e "$tree/night" ]
}
