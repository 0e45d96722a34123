#!/bin/sh
# ranks.sh [PAIRS [OPTION...]]: one process with 2 threads against 2 ranks with 1 thread each, in
# pairs, on bench/lamoe.ini with 2 micro-batches a step (or on CONFIG). Prints tokens per second of
# both and their ratio, above 1 where the ranks are faster, and the median of the ratios. Options go
# to both, such as --set parallel.gradient=bf16. Both must compute the same losses.
#   MOEFW   the program to measure (build/moefw of this tree)
#   MPIRUN  the launcher of its communicator module, with options (mpirun --bind-to none)
#   STEPS   of each run (8); the first two are not counted
set -eu
export LC_ALL=C # decimals have a point
here=$(cd "$(dirname "$0")" && pwd)
moefw=${MOEFW:-$here/../build/moefw}
mpirun=${MPIRUN:-mpirun --bind-to none}
config=${CONFIG:-$here/lamoe.ini}
pairs=${1:-7}
[ $# -eq 0 ] || shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
case ${STEPS:=8} in
    [0-2] | *[!0-9]*)
        echo "ranks.sh: STEPS=$STEPS: expected a number above 2" >&2
        exit 2
        ;;
esac

# measure NAME COMMAND... -- OPTION...: the median of the steps' tokens per second goes to the file NAME
measure() {
    name=$1 command=
    shift
    while [ "$1" != -- ]; do
        command="$command $1"
        shift
    done
    shift
    rm -rf "$out/run"
    # shellcheck disable=SC2086 # words
    $command "$moefw" train "$config" -q --out "$out/run" --steps "$STEPS" --set train.accumulate=2 \
        --set train.warmup=1 --set train.log_every=1 --set train.eval_every=0 --set train.save_every=0 \
        --set train.eval_batches=1 --set train.final_batches=1 --set report.enabled=no "$@" >/dev/null
    sed -n 's/.*"loss":\([^,]*\),.*/\1/p' "$out/run/metrics.jsonl" >"$out/$name.loss"
    sed -n 's/.*"tokens_per_s":\([0-9.eE+]*\).*/\1/p' "$out/run/metrics.jsonl" | sed 1,2d | sort -g |
        awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }' >"$out/$name"
}

pair=1
while [ "$pair" -le "$pairs" ]; do
    # Who runs first changes from pair to pair.
    for turn in $((pair % 2)) $(((pair + 1) % 2)); do
        if [ "$turn" -eq 0 ]; then
            measure one env -- "$@" -t 2
        else
            # shellcheck disable=SC2086 # words
            measure two $mpirun -n 2 -- "$@" -t 1
        fi
    done
    cmp "$out/one.loss" "$out/two.loss"
    awk -v pair="$pair" -v one="$(cat "$out/one")" -v two="$(cat "$out/two")" 'BEGIN {
        printf "pair %d  1 x 2: %.1f tokens/s  2 x 1: %.1f  ratio %.3f\n", pair, one, two, two / one }'
    awk -v one="$(cat "$out/one")" -v two="$(cat "$out/two")" 'BEGIN { print two / one }' >>"$out/ratios"
    pair=$((pair + 1))
done
sort -g "$out/ratios" | awk '{ v[NR] = $1 } END {
    printf "median ratio %.3f [%.3f, %.3f] of %d pairs\n",
        NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2, v[1], v[NR], NR }'
