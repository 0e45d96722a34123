# lib.sh: shared by the lints. A lint sources it, reports each check, and ends with done_testing.
# Run by make check, or by hand from anywhere: sh tests/lint/NAME.sh
# shellcheck shell=sh disable=SC2034
set -u
LC_ALL=C
export LC_ALL
: "${srcdir:=$(cd "$(dirname "$0")/../.." && pwd)}"
srcdir=$(cd "$srcdir" && pwd) # checks change folders
: "${builddir:=$srcdir/build}"
: "${CC:=cc}"
# The floors and their folders, in the order in which they may use one another (includes.sh,
# symbols.sh).
layers='core/base core/graph core/ops core/plugin core/comm core/config core/model core/train'
layers="$layers lib/io lib/data lib/generate lib/run lib/pretrained lib/api tools/lab tools/report tools/cli"
tap_count=0
tap_failed=0

# report NAME FINDINGS: passes if there are no findings, else prints them and fails.
report() {
    tap_count=$((tap_count + 1))
    if [ -z "$2" ]; then
        echo "ok $tap_count - $1"
    else
        tap_failed=$((tap_failed + 1))
        echo "not ok $tap_count - $1"
        printf '%s\n' "$2" | sed 's/^/#   /'
    fi
}

# skip NAME REASON: one check that is not possible here.
skip() {
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# The status is for people; automake's harness reads the "not ok" lines.
done_testing() {
    echo "1..$tap_count"
    [ "$tap_count" -gt 0 ] || exit 1
    [ -n "${HARNESS_ACTIVE:-}" ] && exit 0
    [ "$tap_failed" -eq 0 ]
    exit
}

# sources FOLDER... -- PATTERN...: files of the project at or below the folders, sorted, without
# hidden files and without built or downloaded ones.
sources() {
    (
        cd "$srcdir" || exit 1
        places=
        while [ $# -gt 0 ] && [ "$1" != -- ]; do
            [ -e "$1" ] && places="$places $1"
            shift
        done
        shift
        [ -n "$places" ] || exit 0
        for pattern; do
            # shellcheck disable=SC2086
            find $places \( -name '.*' -o -name '*.log' -o -name '*.trs' -o -name '*.so' -o -name '*.[ao]' -o -name '*.so.d' -o -path bench/out -o -name __pycache__ \) -prune \
                -o -type f -name "$pattern" -print
        done
    ) | sort
}

# all_sources PATTERN...: the same for the whole project.
all_sources() {
    sources core lib tools kernels plugins comm include etc share man tests bench m4 build-aux/packages.txt configure.ac Makefile.am \
        quickstart GNUmakefile NEWS LICENSE moefw.pc.in README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md -- "$@" |
        grep -v '^m4/l[^/]*$'
}
