#!/bin/sh
# mpirun.sh RANKS CONFIG RUN [WORDS...]: trains CONFIG into the directory RUN on RANKS processes, or
# continues RUN, and starts again after a lost rank (7, 9, 137) or a limit of time (75), at most
# MOEFW_STARTS times in all (10). HOSTS: a list for mpirun --host; MPIRUN: the launcher with its
# options; MOEFW: the program.
set -u
[ $# -ge 3 ] || { echo "usage: mpirun.sh RANKS CONFIG RUN [WORDS...]" >&2; exit 2; }
ranks=$1 config=$2 run=$3
shift 3

launch() {
    # shellcheck disable=SC2086 # a launcher may have options
    ${MPIRUN:-mpirun} ${HOSTS:+--host "$HOSTS"} -n "$ranks" "${MOEFW:-moefw}" "$@"
}

left=${MOEFW_STARTS:-10}
while :; do
    code=0
    if [ -e "$run/ckpt/latest" ]; then
        launch train "$run" --resume || code=$?
    else
        # A run that was cut before its first checkpoint is kept beside the new one.
        [ ! -e "$run" ] || mv "$run" "$run.cut-$(date +%s)" || exit 1
        launch train "$config" --out "$run" "$@" || code=$?
    fi
    left=$((left - 1))
    case $code in
        7 | 9 | 75 | 137) [ "$left" -gt 0 ] || exit "$code" ;;
        *) exit "$code" ;;
    esac
    echo "mpirun.sh: ended with $code; starting again" >&2
done
