#!/bin/sh
# run.sh [--hours H] [--runs N] [--build DIR] [--out DIR] [TARGET...]: runs fuzz targets one after
# another, H hours each (2) or until they have N executions in all, with libFuzzer, and prints a table. DIR is a
# build configured with
#     CC=clang ../configure --enable-fuzz --enable-build-type=asan && make fuzzers
# (build-fuzz); nothing else need be built. New inputs and findings stay in OUT (fuzz-out), so the
# next run begins with them; OUT/sums.tsv has a line for each ten minutes, and the table the sums of all nights.
# Speeds are executions per second of processor time, so that other work on the machine does not change them.
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
        sed -n '2,10s/^# //p' "$0"
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

# The longest inputs, in bytes: what a reader needs to meet all of its branches. Longer ones only take time.
length() {
    case $1 in
    regex) echo 256 ;;
    ini | jinja | option | texts | tokenizer | vocabulary) echo 512 ;;
    config | json | packed | peft | pretrained | records | stored) echo 1024 ;;
    tokenizer_json) echo 4096 ;;
    *) echo 2048 ;;
    esac
}

# sum TARGET FIELD: of all lines of the target
sum() {
    awk -F '\t' -v t="$1" -v f="$2" '$1 == t { n += $f } END { printf "%d\n", n }' "$out/sums.tsv"
}

# Sets `cpu` to the seconds of processor time of this shell's children: the second line of `times`, which
# a subshell could not tell.
children() {
    times >"$out/times"
    cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, "m"); n += 60 * part[1] + part[2] } printf "%d\n", n + .5 }' "$out/times")
}

found=0
: >>"$out/sums.tsv"
printf '%-16s %12s %8s %13s %8s %8s %s\n' target executions 'per s' 'in all' edges inputs findings
for name in "$@"; do
    program=$build/tests/fuzz/fuzz_$name
    [ -x "$program" ] || { printf '%-16s not built\n' "$name"; continue; }
    mkdir -p "$out/$name/corpus" "$out/$name/findings"
    # A finding ends libFuzzer; it is kept, and the rest of the time is run on.
    end=$(($(date +%s) + seconds)) runs=0 used=0 edges=- inputs=-
    : >"$out/$name/log"
    while left=$((end - $(date +%s))) && [ "$left" -gt 0 ]; do
        [ "$most" -gt 0 ] && [ "$(sum "$name" 3)" -ge "$most" ] && break
        children
        before=$cpu
        "$program" -max_total_time=$((left < 600 ? left : 600)) \
            -runs=$((most > 0 ? most - $(sum "$name" 3) : -1)) -max_len="$(length "$name")" -len_control=100 \
            -timeout=10 -report_slow_units=3600 -rss_limit_mb=2048 -print_final_stats=1 \
            -artifact_prefix="$out/$name/findings/" "$out/$name/corpus" "$here/corpus/$name" \
            >"$out/$name/last" 2>&1
        cat "$out/$name/last" >>"$out/$name/log"
        children
        took=$((cpu - before))
        now=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name/last" | tail -n 1 | grep . || echo 0)
        runs=$((runs + now)) used=$((used + took))
        sed -n 's/^#[0-9].* cov: \([0-9]*\) ft: [0-9]* corp: \([0-9]*\).*/\1 \2/p' "$out/$name/last" |
            tail -n 1 >"$out/$name/reached"
        read -r edges inputs <"$out/$name/reached" || edges=- inputs=-
        printf '%s\t%s\t%d\t%d\t%s\t%s\n' "$name" "$(date +%F)" "$now" "$took" "$edges" "$inputs" >>"$out/sums.tsv"
        [ "$now" -eq 0 ] && break
    done
    # On a machine with other work an input can seem endless: that is a finding if it is so again.
    for late in "$out/$name/findings"/timeout-*; do
        [ -f "$late" ] && timeout 60 "$program" -timeout=50 "$late" >/dev/null 2>&1 && rm "$late"
    done
    findings=$(find "$out/$name/findings" -type f | wc -l)
    [ "$findings" -gt 0 ] && found=1
    printf '%-16s %12d %8d %13d %8s %8s %d\n' "$name" "$runs" $((runs / (used > 0 ? used : 1))) \
        "$(sum "$name" 3)" "$edges" "$inputs" "$findings"
done
exit $found
