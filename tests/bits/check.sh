#!/bin/sh
# check.sh: compares what a program computes with the records in this folder.
#
#     check.sh [-d DATA] [-p PLUGINS] [-t THREADS] [-s SEED] [-D DEVICE] PROGRAM RUN|GROUP...
#
# The arguments are those of record.sh. For each run it prints "ok RUN" or "differs RUN" and the
# lines that differ; its status is 1 if a run differs. If $CC (cc) is the compiler of the record,
# with the same major version, all lines must be equal. Otherwise the losses must be within 1e-5 of
# the record's, relatively, and the rest is not compared. The records are those of the folder
# RECORDS, if it is set.
#
# To make a new record: record.sh -o tests/bits [-d DATA] PROGRAM RUN...
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
records=${RECORDS:-$here}

data='' plugins='' threads='' seed='' device=''
while getopts d:p:t:s:D: option; do
    case $option in
        d) data=$OPTARG ;;
        p) plugins=$OPTARG ;;
        t) threads=$OPTARG ;;
        s) seed=$OPTARG ;;
        D) device=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || {
    echo "check.sh: expected a program and the names of runs or groups" >&2
    exit 2
}
program=$1
shift
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP

# built FILE: the compiler of a record and its major version
built() {
    sed -n 's/^compiler \([a-z]* [0-9]*\).*/\1/p' "$1"
}

# near A B: the losses of both traces are close
near() {
    awk 'FNR == 1 { file++ }
        $1 == "step" && file == 1 { n++; key[n] = $2 " " $3; loss[n] = $4 }
        $1 == "step" && file == 2 {
            m++
            d = $4 - loss[m]; if (d < 0) d = -d
            size = loss[m] < 0 ? -loss[m] : loss[m]
            if (key[m] != $2 " " $3 || d > 1e-5 * size) {
                printf "%s %.9g instead of %.9g\n", $2 " " $3, $4, loss[m]; bad = 1
            }
        }
        END { if (n != m) print m " lines of losses instead of " n; exit bad || n != m }' "$1" "$2"
}

status=0
for word; do
    names=$(sh "$here/record.sh" -l "$word") || exit 2
    for name in $names; do
        found=$scratch/$name.txt
        sh "$here/record.sh" ${data:+-d "$data"} ${plugins:+-p "$plugins"} ${threads:+-t "$threads"} ${seed:+-s "$seed"} \
            ${device:+-D "$device"} \
            -o "$scratch" "$program" "$name" || {
            status=1
            [ -s "$found" ] || continue
        }
        stored=$records/$name.txt
        if [ ! -s "$stored" ]; then
            echo "no record of $name"
            status=1
            continue
        fi
        if [ "$(built "$stored")" = "$(built "$found")" ]; then
            grep -v '^compiler ' "$stored" >"$scratch/a"
            grep -v '^compiler ' "$found" >"$scratch/b"
            diff "$scratch/a" "$scratch/b" >"$scratch/diff"
        else
            near "$stored" "$found" >"$scratch/diff"
        fi && echo "ok $name" && continue
        status=1
        echo "differs $name"
        cut -c 1-160 "$scratch/diff" | head -n "${LINES_SHOWN:-20}" | sed 's/^/    /'
    done
done
exit $status
