#!/bin/sh
# run.sh [--device cuda [--dry-run]] [WORKLOAD...]: verifies that both sides compute the same, measures moefw and its
# opponents alternately in pairs, then writes RESULTS.md. See README.md.
#   MOEFW          the program to measure (build/moefw of this tree, or the one installed)
#   BENCH_QUIET    a command put before each measurement, such as one that quiets the machine
#   BENCH_OPTIONS  for run.py: --pairs N, --dtype bf16, --against torch-compiled, ...
#   BENCH_PYTHON_CURRENT  the Python of the opponents
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${BENCH_PYTHON:-python3}
if [ -z "${MOEFW:-}" ]; then
    MOEFW=$here/../build/moefw
    [ -x "$MOEFW" ] || MOEFW=$(command -v moefw) || {
        echo "run.sh: no moefw: build it in build/, install it, or set MOEFW" >&2
        exit 2
    }
fi
export MOEFW
if [ "${1:-}" = --device ] || [ "${1:-}" = --device=cuda ]; then
    if [ "$1" = --device ]; then
        [ "${2:-}" = cuda ] || {
            echo "run.sh: --device ${2:-}: expected cuda" >&2
            exit 2
        }
        shift
    fi
    shift
    exec "$python" "$here/cuda/pairs.py" "$@"
fi
mkdir -p "$here/out"
# Each workload runs in a process of its own, so a failure does not stop the others.
failed=
current=${BENCH_PYTHON_CURRENT:-/opt/torchvenv/bin/python}
if [ -x "$current" ]; then
    "$current" "$here/verify.py" || failed=" verify"
fi
[ $# -gt 0 ] || set -- lamoe switch gpt2 default long decode prompt big olmoe layer router
for workload; do
    # shellcheck disable=SC2086 # lists of words
    if [ "$workload" = big ]; then
        ${BENCH_QUIET:-} "$here/big/run.sh" || failed="$failed big"
    else
        ${BENCH_QUIET:-} "$python" "$here/run.py" ${BENCH_OPTIONS:-} "$workload" || failed="$failed $workload"
    fi
done
"$python" "$here/table.py"
[ -z "$failed" ] || {
    echo "run.sh: failed:$failed" >&2
    exit 1
}
