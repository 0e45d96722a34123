#!/bin/sh
# run.sh [--hours H] [--runs N] [--build DIR] [--out DIR] [TARGET...]: runs fuzz targets one after
# another, H hours each (2) or until N executions, with libFuzzer, and prints a table. DIR is a build configured with
#     CC=clang ../configure --enable-fuzz --enable-build-type=asan && make fuzzers
# (build-fuzz); nothing else need be built. New inputs and findings stay in OUT (fuzz-out), so the
# next run begins with them.
# The exit status is 1 if a target has found something.
set -u
here=$(cd "$(dirname "$0")" && pwd)
hours=2 most=0 build=build-fuzz out=fuzz-out
while [ $# -gt 0 ]; do
    case $1 in
    --hours | --runs | --build | --out)
        [ $# -ge 2 ] || { echo "run.sh: $1: expected a value" >&2; exit 2; }
        case $1 in
        --hours) hours=$2 ;;
        --runs) most=$2 ;;
        --build) build=$2 ;;
        --out) out=$2 ;;
        esac
        shift 2
        ;;
    -h | --help)
        sed -n '2,8s/^# //p' "$0"
        exit 0
        ;;
    -*)
        echo "run.sh: unknown '$1'" >&2
        exit 2
        ;;
    *) break ;;
    esac
done
seconds=$(awk -v h="$hours" 'BEGIN { if (h !~ /^[0-9.]+$/ || h <= 0) exit 1; printf "%d", h * 3600 + .5 }') || {
    echo "run.sh: --hours: expected a number above 0, found '$hours'" >&2
    exit 2
}
case $most in
*[!0-9]* | '') echo "run.sh: --runs: expected a number, found '$most'" >&2; exit 2 ;;
esac
if [ $# -eq 0 ]; then
    for file in "$here"/fuzz_*.c; do
        name=${file##*/fuzz_}
        set -- "$@" "${name%.c}"
    done
fi
build=$(cd "$build" 2>/dev/null && pwd) || { echo "run.sh: --build: no such folder" >&2; exit 2; }
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
# Most targets allocate all the time, where short backtraces make ASan twice as fast. Without
# ASAN_OPTIONS a finding that is run again has whole ones.
: "${ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=8}"
export srcdir="$here/../.." ASAN_OPTIONS

found=0
printf '%-16s %12s %8s %8s %9s %9s %s\n' target executions 'per s' edges features inputs findings
for name in "$@"; do
    program=$build/tests/fuzz/fuzz_$name
    [ -x "$program" ] || { printf '%-16s not built\n' "$name"; continue; }
    mkdir -p "$out/$name/corpus" "$out/$name/findings"
    # A finding ends libFuzzer; it is kept, and the rest of the time is run on.
    begin=$(date +%s)
    end=$((begin + seconds)) runs=0
    : >"$out/$name/log"
    while left=$((end - $(date +%s))) && [ "$left" -gt 0 ]; do
        "$program" -max_total_time="$left" -runs=$((most > 0 ? most - runs : -1)) -timeout=10 -report_slow_units=3600 -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix="$out/$name/findings/" "$out/$name/corpus" "$here/corpus/$name" \
            >"$out/$name/last" 2>&1
        status=$?
        cat "$out/$name/last" >>"$out/$name/log"
        runs=$((runs + $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name/last" | tail -n 1 | grep . || echo 0)))
        [ "$status" -eq 0 ] && break
        [ "$most" -gt 0 ] && [ "$runs" -ge "$most" ] && break
    done
    spent=$(($(date +%s) - begin))
    # On a machine with other work an input can seem endless: that is a finding if it is so again.
    for late in "$out/$name/findings"/timeout-*; do
        [ -f "$late" ] && timeout 60 "$program" -timeout=50 "$late" >/dev/null 2>&1 && rm "$late"
    done
    findings=$(find "$out/$name/findings" -type f | wc -l)
    [ "$findings" -gt 0 ] && found=1
    sed -n 's/^#[0-9].* cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\).*/\1 \2 \3/p' "$out/$name/log" | tail -n 1 |
        { read -r edges features inputs || :
          printf '%-16s %12d %8d %8s %9s %9s %d\n' "$name" "$runs" $((runs / (spent > 0 ? spent : 1))) \
              "${edges:--}" "${features:--}" "${inputs:--}" "$findings"; }
done
exit $found
