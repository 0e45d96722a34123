#!/bin/sh
# coverage.sh [--build DIR] [--jobs N] [--table] [--missing PATH] [TEST...]: builds with gcov's counters in
# DIR (build-coverage), runs the suite there and prints which share of lines and branches of each folder
# ran, outside of what only a failed allocation reaches, and which lines of core and kernels neither ran
# nor have a reason in unreached.tsv. TESTs are those of make check, without lints; after a run of some
# tests, reasons are not asked for, nor by --missing. The whole suite needs libcurl, libedit and MOEFW_PRETRAINED.
# --table runs nothing and prints what was counted before; so does --missing PATH, and it lists what did
# not run below PATH, as core/train. The exit status is 1 if core has less than 95 % of lines or 85 % of
# branches, or if a line has no reason.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=build-coverage jobs=2 table='' missing='' reasons=$here/unreached.tsv
while [ $# -gt 0 ]; do
    case $1 in
    --build | --jobs | --missing)
        [ $# -ge 2 ] || { echo "coverage.sh: $1: expected a value" >&2; exit 2; }
        case $1 in
        --build) build=$2 ;;
        --jobs) jobs=$2 ;;
        --missing) missing=$2 table=yes ;;
        esac
        shift 2
        ;;
    --table) table=yes; shift ;;
    -h | --help) sed -n '2,10s/^# //p' "$0"; exit 0 ;;
    -*) echo "coverage.sh: unknown '$1' (expected --build, --jobs, --table or --missing)" >&2; exit 2 ;;
    *) break ;;
    esac
done
mkdir -p "$build" && cd "$build" || exit 1
if [ ! -f Makefile ]; then
    "$here/../configure" ${CC:+"CC=$CC"} -q --enable-build-type=debug --enable-coverage >configure.log 2>&1 ||
        { cat configure.log >&2; exit 1; }
fi
if [ -z "$table" ]; then
    # gcov adds to the counters of earlier runs.
    find core lib tools kernels plugins tests/unit/kernels -name '*.gcda' -exec rm -f {} + 2>/dev/null
    MOEFW_CHECK_SECONDS=${MOEFW_CHECK_SECONDS:-3600}
    # gcov's own messages would be output of the program.
    GCOV_ERROR_FILE=/dev/null
    export MOEFW_CHECK_SECONDS GCOV_ERROR_FILE
    rm -f whole
    # shellcheck disable=SC2016
    [ $# -gt 0 ] || { set -- '$(UNIT)' '$(FUZZ_TARGETS)' '$(CLI)' && : >whole; }
    make -k -s -j"$jobs" check TESTS="$*" >check.log 2>&1
    grep -h '^# \(TOTAL\|PASS\|SKIP\|FAIL\|ERROR\)' check.log
fi
# Tests compile kernels of AMX for an emulation of its registers.
find core lib tools kernels plugins tests/unit/kernels -name '*.gcda' >counted
[ -s counted ] || { echo "coverage.sh: $build: nothing was counted; run it without --table and --missing first" >&2; exit 1; }
[ -f whole ] && [ -z "$missing" ] || reasons=''
# Counters that threads changed at once may be inconsistent, which gcov says on stderr. It is called for
# each object alone: of a source that several of its objects are made of, it prints only one.
xargs -n 1 gcov -b -c -t <counted 2>gcov.log | LC_ALL=C awk -v goal=1 -v missing="$missing" -v reasons="$reasons" -f "$here/coverage.awk"
