#!/bin/sh
# nightly.sh [--out DIR] [--hours H] [--jobs N] [PART...]: the checks that are too slow for make check,
# all of them or those named. Builds are made in build-nightly-NAME beside the sources, and the next
# night uses them again; logs go to DIR/PART.log (build-nightly). It prints a line for each: part, date,
# minutes, ok or FAIL, figure; DIR/results.tsv keeps the lines of all nights, RESULTS.md the last of each part. The exit status is 1 if a
# part fails.
# A fuzz target runs H hours (.05). Parts:
#   gcc, clang  release builds of program and tests with -Werror, and the suite
#   elsewhere   the suite with 8 threads, a locale with a decimal comma, another time zone, temporary files in memory
#   bare        the suite with one thread, of a program without the optional packages
#   asan, tsan  the suite under ASan and UBSan; training, evaluation, compare and the library under TSan
#   memcheck    each verb under valgrind
#   coverage    the suite, with the shares of lines and branches that ran
#   faults      each call of each verb fails once; 20,000 states after loss of power
#   drawn       2,160 drawn configurations against the reference kernels
#   cuda        kernels of CUDA in all orders, faults planted in them and in host code, each call of
#               CUDA fails once, all quick presets on the library that stands for CUDA, and what nvcc
#               makes of the kernels for four architectures (rules.tsv)
#   self        200 comparisons of a router with itself
#   verified    ten results verified with other threads, on ranks, on other kernels; four falsified
#   soak        training for MOEFW_SOAK seconds (600): memory and descriptors
#   fuzz        all targets
#   debian13    the suite in a bare Debian 13, which is made in DIR; needs root, debootstrap, a network
#   musl        the suite with musl in place of glibc; needs apt-get, musl-gcc, a network
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/.." && pwd)
all='gcc clang elsewhere bare asan tsan memcheck coverage faults drawn cuda self verified soak fuzz debian13 musl'
out=$source/build-nightly hours=.05 jobs=2
while [ $# -gt 0 ]; do
    case $1 in
    --out | --hours | --jobs)
        [ $# -ge 2 ] || { echo "nightly.sh: $1: expected a value" >&2; exit 2; }
        case $1 in
        --out) out=$2 ;;
        --hours) hours=$2 ;;
        --jobs) jobs=$2 ;;
        esac
        shift 2
        ;;
    -h | --help) sed -n '2,23s/^# //p' "$0"; exit 0 ;;
    -*) echo "nightly.sh: unknown '$1' (expected --out, --hours or --jobs)" >&2; exit 2 ;;
    *) break ;;
    esac
done
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $all
for part in "$@"; do
    case " $all " in
    *" $part "*) ;;
    *) echo "nightly.sh: no part '$part' (expected $all)" >&2; exit 2 ;;
    esac
done
[ -x "$source/configure" ] || { echo "nightly.sh: $source has no configure: run autoreconf -i there first" >&2; exit 2; }
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
MOEFW_CHECK_SECONDS=${MOEFW_CHECK_SECONDS:-7200}
export MOEFW_CHECK_SECONDS
training='tests/unit/base/check_parallel tests/unit/train/check_loop tests/unit/train/check_trainer
    tests/unit/run/check_checkpoint tests/unit/api/check_library tests/cli/compare.bats tests/cli/infer.bats
    tests/cli/library.bats tests/cli/train/train.bats tests/cli/train/tasks.bats'

# build FOLDER COMPILER OPTION...: configures once, and makes the program
build() {
    folder=$source/build-nightly-$1 compiler=$2
    shift 2
    mkdir -p "$folder" && cd "$folder" || return 1
    [ -f Makefile ] || ../configure -q CC="$compiler" "$@" || return 1
    make -s -k -j"$jobs"
}

# suite [MAKE ARGUMENT...]: make check in this folder; the last line is its counts
suite() {
    make -s -k -j"$jobs" check "$@" >check.log 2>&1
    status=$?
    sh "$here/counts.sh" check.log || return 1
    return "$status"
}

# one test of a bats file, in the folder of the build without instruments
slow() {
    MOEFW_SLOW=1 MOEFW=$PWD/moefw srcdir=$source builddir=$PWD CC="${CC:-cc}" bats --tap "$source/$1" -f "$2"
}

# run PART: the last line that it prints is its figure
run() {
    case $1 in
    memcheck | faults | drawn | cuda | self | verified | soak | elsewhere) build gcc "${CC:-gcc}" --enable-werror || return 1 ;;
    esac
    case $1 in
    gcc) build gcc "${CC:-gcc}" --enable-werror && suite ;;
    clang) build clang "${CLANG:-clang}" --enable-werror && suite ;;
    elsewhere)
        comma=$(locale -a | LC_ALL=C grep -iE '^[a-z]{2}_[A-Z]{2}\.utf-?8$' | while read -r name; do
            [ "$(LC_ALL=$name locale decimal_point)" = , ] && echo "$name" && break
        done)
        [ -n "$comma" ] || { echo 'no locale with a decimal comma: localedef -i de_DE -f UTF-8 de_DE.UTF-8 makes one'; return 1; }
        (export OMP_NUM_THREADS=8 LC_ALL="$comma" TZ=Asia/Kathmandu TMPDIR=/dev/shm && suite)
        ;;
    bare)
        build bare "${CC:-gcc}" --enable-werror --without-mpi --without-curl --without-edit --without-nccl --without-cuda &&
            OMP_NUM_THREADS=1 suite
        ;;
    asan) build asan "${CC:-gcc}" --enable-build-type=asan && suite ;;
    tsan) build tsan "${CC:-gcc}" --enable-build-type=tsan && suite TESTS="$training" ;;
    memcheck)
        sh "$here/memcheck.sh" ./moefw
        status=$?
        awk '/^(ok|FAIL) / { n[$1]++ } END { printf "%d ok, %d failed\n", n["ok"], n["FAIL"] }' "$out/memcheck.log"
        return "$status"
        ;;
    coverage)
        sh "$here/coverage.sh" --build "$source/build-nightly-coverage" --jobs "$jobs"
        status=$?
        awk '/^core, all/ { printf "core: %s %% of lines, %s %% of branches\n", $4, $6 }' "$out/coverage.log"
        return "$status"
        ;;
    faults)
        make -s -j"$jobs" check TESTS= && slow tests/faults/faults.bats 'every call' &&
            slow tests/faults/power.bats '20,000'
        status=$?
        awk '/^# ok/ { sub(/^# /, ""); text = text "; " $0 } END { print substr(text, 3) }' "$out/faults.log"
        return "$status"
        ;;
    drawn) MOEFW_SLOW=1 suite TESTS=tests/unit/model/check_drawn ;;
    cuda)
        make -s -j"$jobs" check TESTS= && make -s fake-cuda emulator || return 1
        status=0
        for part in emulator backend stored plugins training gpu/check_gpu static/static layouts/layouts; do
            slow "tests/cuda/$part.bats" . || status=1
        done
        awk '/^ok / && !/# skip/ { n++ } /^not ok / { bad++ } END { printf "%d tests passed, %d failed\n", n, bad }' "$out/cuda.log"
        return "$status"
        ;;
    self)
        slow tests/cli/compare.bats '200 comparisons'
        status=$?
        sed -n 's/^# \(.* flagged.*\)/\1/p' "$out/self.log"
        return "$status"
        ;;
    verified)
        sh "$here/verified.sh" ./moefw
        status=$?
        awk '/^(ok|FAIL) / { n[$1]++ } END { printf "%d ok, %d failed\n", n["ok"], n["FAIL"] }' "$out/verified.log"
        return "$status"
        ;;
    soak)
        slow tests/cli/train/long.bats 'ten minutes'
        status=$?
        sed -n 's/^# \([0-9].* steps, .*\)/\1/p' "$out/soak.log"
        return "$status"
        ;;
    fuzz)
        build fuzz "${CLANG:-clang}" --enable-fuzz --enable-build-type=asan && make -s -k -j"$jobs" fuzzers &&
            sh "$here/fuzz/run.sh" --hours "$hours" --build . --out "$out/fuzz-out"
        status=$?
        awk 'NF == 7 && $2 ~ /^[0-9]+$/ { n++; runs += $2; found += $7 }
            END { printf "%d targets, %d executions, %d findings\n", n, runs, found }' "$out/fuzz.log"
        return "$status"
        ;;
    debian13) sh "$here/systems/chroot.sh" --jobs "$jobs" "$out/debian13" ;;
    musl) sh "$here/systems/musl.sh" --jobs "$jobs" "$out/musl" ;;
    esac
}

# note PART RESULT: the row of the part in the first table of RESULTS.md
note() {
    tree=$(git -C "$source" rev-parse --short=8 HEAD 2>/dev/null) || tree='no git'
    awk -v part="$1" -v row="| $1 | $(date +%F), $tree | $2 |" '
        tables == 0 && /^\|---/ { tables = 1; print; next }
        tables == 1 && index($0, "| " part " |") == 1 { print row; done = 1; next }
        tables == 1 && !/^\|/ { if (!done) print row; tables = 2 }
        { print }' "$here/RESULTS.md" >"$out/RESULTS.md" && cp "$out/RESULTS.md" "$here/RESULTS.md"
}

failed=0
for part in "$@"; do
    begin=$(date +%s)
    if (run "$part") >"$out/$part.log" 2>&1; then word=ok; else word=FAIL failed=1; fi
    figure=$(tail -n 1 "$out/$part.log")
    printf '%s\t%s\t%d\t%s\t%s\n' "$part" "$(date +%F)" $((($(date +%s) - begin + 59) / 60)) "$word" \
        "$figure" | tee -a "$out/results.tsv"
    note "$part" "$word: $figure"
done
exit $failed
