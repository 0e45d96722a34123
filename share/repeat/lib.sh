# shellcheck shell=sh
# lib.sh: common code of the scripts that repeat published results, which source it.
#
#   usage_and_exit STATUS         prints $usage
#   options 'NAME...' "$@"        sets the variable of each option --NAME VALUE, - in it as _
#   begin                         after the options: finds moefw, makes $out
#   plan NAME WORDS...            adds a run: "moefw train WORDS..." into $out/runs/NAME
#   carry_out                     trains the runs that have not ended, $jobs at a time
#   value NAME SPLIT KEY [STEP]   of the last line of that split (of that step) in metrics.jsonl
#   average NAME SPLIT KEY [FROM TO]   mean over its lines, of steps FROM < step <= TO
#
# An interrupted run resumes. A run that has ended is kept: $out/runs/NAME.done exists. Variables:
# data (a file for all runs, or empty), out, jobs, threads (0: cores / jobs), extra (further words
# of every run).

here=$(cd "$(dirname "$0")" && pwd)
me=$(basename "$0")
LC_ALL=C
export LC_ALL

die() {
    status=$1
    shift
    echo "$me: $*" >&2
    exit "$status"
}

usage_and_exit() {
    if [ "$1" = 0 ]; then printf '%s\n' "$usage"; else printf '%s\n' "$usage" >&2; fi
    exit "$1"
}

# options 'NAME...' ARGUMENT...: the options of each script besides --set and --help
options() {
    known=" $1 "
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        -h | --help) usage_and_exit 0 ;;
        --*[!a-z-]*) name= ;;
        --?*) name=${1#--} ;;
        *) name= ;;
        esac
        case $known in
        *" ${name:-/} "*) ;;
        *) [ "$name" = set ] || die 2 "unknown argument '$1' (--help tells)" ;;
        esac
        [ $# -ge 2 ] || die 2 "$1 wants a value"
        case $name in
        set) extra="$extra --set $2" ;;
        *) eval "$(echo "$name" | tr - _)=\$2" ;;
        esac
        shift 2
    done
}

# list A,B,C: as words
list() {
    echo "$1" | tr ',' ' '
}

whole() {
    case $2 in
    '' | *[!0-9]* | 0) die 2 "$1: expected a whole number above 0, found '$2'" ;;
    esac
}

begin() {
    if [ -z "${MOEFW-}" ]; then
        MOEFW=$(command -v moefw) || MOEFW=$here/../../build/moefw
    fi
    "$MOEFW" --version >/dev/null 2>&1 || die 6 "moefw is not in PATH; MOEFW=PROGRAM names it"
    whole --jobs "$jobs"
    cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
    [ "${threads:-0}" -gt 0 ] || threads=$((cores / jobs))
    [ "$threads" -gt 0 ] || threads=1
    mkdir -p "$out/runs" || die 1 "cannot make $out"
}

runs_planned=''
plan() {
    runs_planned="$runs_planned$*
"
}

# one NAME WORDS...: trains or resumes, unless the run has ended
one() {
    name=$1
    shift
    run=$out/runs/$name
    words="$* $extra"
    if [ -e "$run.words" ] && [ "$(cat "$run.words")" != "$words" ]; then
        echo "$me: $run was made with other options: remove it, or choose another --out" >&2
        return 1
    fi
    [ -e "$run.done" ] && return 0
    echo "$words" >"$run.words"
    began=$(date +%s)
    if [ -e "$run/ckpt/latest" ]; then
        "$MOEFW" train -q --resume "$run" -t "$threads" >>"$run.log" 2>&1 &
    else
        rm -rf "$run"
        # shellcheck disable=SC2086 # words are words
        "$MOEFW" train $words -q --out "$run" -t "$threads" ${data:+--set} \
            ${data:+"data.path=$data"} >>"$run.log" 2>&1 &
    fi
    child=$!
    trap 'kill $child 2>/dev/null; wait $child; exit 1' TERM # it saves and ends
    wait $child
    status=$?
    trap - TERM
    if [ $status -ne 0 ]; then
        echo "$me: $name ended with status $status: see $run.log; begin again to go on" >&2
        [ $status -lt 128 ] || exit 1 # ended by a signal: no further runs
        return 1
    fi
    : >"$run.done"
    echo "$me: $name: val loss $(value "$name" val task_loss), $(($(date +%s) - began)) s" >&2
}

# worker I: every jobs-th run of the plan
worker() {
    at=0
    failed=0
    while read -r line; do
        if [ $((at % jobs)) -eq "$1" ] && [ -n "$line" ]; then
            # shellcheck disable=SC2086 # words are words
            one $line </dev/null || failed=1
        fi
        at=$((at + 1))
    done <<PLAN
$runs_planned
PLAN
    return $failed
}

carry_out() {
    echo "$me: $(printf '%s' "$runs_planned" | wc -l) runs in $out/runs, $jobs at a time, $threads threads each" >&2
    pids=
    trap 'wait; exit 130' INT # the terminal has signalled the runs too; a second signal does not wait
    trap 'kill $pids 2>/dev/null; wait; exit 143' TERM HUP
    w=0
    while [ $w -lt "$jobs" ]; do
        worker $w &
        pids="$pids $!"
        w=$((w + 1))
    done
    bad=0
    for pid in $pids; do
        wait "$pid" || bad=1
    done
    trap - INT TERM HUP
    [ $bad -eq 0 ] || die 1 "some runs are not finished"
}

value() {
    awk -v split_="\"split\":\"$2\"" -v key="\"$3\":" -v step="${4-}" '
        index($0, split_) && (step == "" || index($0, "{\"step\":" step ",")) {
            at = index($0, key)
            if (at) v = substr($0, at + length(key)) + 0
            found = found || at
        }
        END { if (found) print v; else print "-" }' "$out/runs/$1/metrics.jsonl"
}

average() {
    awk -v split_="\"split\":\"$2\"" -v key="\"$3\":" -v from="${4:--1}" -v to="${5:-1e18}" '
        index($0, split_) {
            step = substr($0, 9) + 0
            at = index($0, key)
            if (at && step > from && step <= to) { sum += substr($0, at + length(key)); n++ }
        }
        END { if (n) printf "%.6g\n", sum / n; else print "-" }' "$out/runs/$1/metrics.jsonl"
}

# total NAME SPLIT KEY FROM TO: sum over its lines, of steps FROM < step <= TO
total() {
    awk -v split_="\"split\":\"$2\"" -v key="\"$3\":" -v from="$4" -v to="$5" '
        index($0, split_) {
            step = substr($0, 9) + 0
            at = index($0, key)
            if (at && step > from && step <= to) sum += substr($0, at + length(key))
        }
        END { print sum + 0 }' "$out/runs/$1/metrics.jsonl"
}

# layers NAME SPLIT KEY: from its last line, "LAYER VALUE..." for each MoE layer; - without the key
layers() {
    awk -v split_="\"split\":\"$2\"" -v key="\"$3\":" '
        index($0, split_) { line = $0 }
        END {
            line = substr(line, index(line, "\"moe\":["))
            if (index(line, "\"heads\":{")) line = substr(line, 1, index(line, "\"heads\":{") - 1)
            n = split(line, part, /\{"layer":/)
            for (i = 2; i <= n; i++) {
                at = index(part[i], key)
                v = at ? substr(part[i], at + length(key)) : "-"
                if (substr(v, 1, 1) == "[") { sub(/\].*/, "", v); v = substr(v, 2); gsub(/,/, " ", v) }
                else sub(/[,}].*/, "", v)
                print part[i] + 0, v
            }
        }' "$out/runs/$1/metrics.jsonl"
}

# 97.5 % quantiles of Student's t, for 1 to 19 degrees of freedom; beyond 1.96 + 2.4 / degrees
t_quantiles='12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131 2.120 2.110 2.101 2.093'

# interval: numbers on stdin -> "mean half-width" of the 95 % interval (Student's t); - for
# one number
interval() {
    awk -v quantiles="$t_quantiles" '
        { x[n++] = $1; sum += $1 }
        END {
            split(quantiles, t, " ")
            mean = sum / n
            for (i = 0; i < n; i++) ss += (x[i] - mean) ^ 2
            if (n < 2) { printf "%.4f -\n", mean; exit }
            q = n - 1 in t ? t[n - 1] : 1.96 + 2.4 / (n - 1)
            printf "%.4f %.4f\n", mean, q * sqrt(ss / (n - 1) / n)
        }'
}

# half_width SD N: of the 95 % interval of a mean over N draws with the standard deviation SD, for
# which their squares were divided by N; - for one draw
half_width() {
    awk -v quantiles="$t_quantiles" -v sd="$1" -v n="$2" 'BEGIN {
        split(quantiles, t, " ")
        if (n < 2) { print "-"; exit }
        q = n - 1 in t ? t[n - 1] : 1.96 + 2.4 / (n - 1)
        printf "%.4f\n", q * sd / sqrt(n - 1)
    }'
}

# t_test [VALUE]: numbers on stdin -> p, two-sided, of the hypothesis that their mean is 0; with
# VALUE, that VALUE is one more number of the same normal distribution. - for one number
t_test() {
    awk -v value="${1-}" '
        { x[n++] = $1; sum += $1 }
        END {
            mean = sum / n
            for (i = 0; i < n; i++) ss += (x[i] - mean) ^ 2
            v = n - 1
            if (v < 1 || ss == 0) { print "-"; exit }
            t = value == "" ? mean / sqrt(ss / v / n) : (value - mean) / sqrt(ss / v * (1 + 1 / n))
            # the finite sums of Student (Abramowitz and Stegun 26.7.3, 26.7.4)
            angle = atan2(t < 0 ? -t : t, sqrt(v)); c = cos(angle); term = v % 2 ? c : 1
            for (i = v % 2 ? 3 : 2; i <= v; i += 2) { all += term; term *= c * c * (i - 1) / i }
            a = v % 2 ? (angle + (v > 1 ? sin(angle) * all : 0)) * 2 / atan2(0, -1) : sin(angle) * all
            printf "%.6g\n", a < 1 ? 1 - a : 0
        }'
}

# holm: lines "NAME<TAB>P" -> the same with Holm-corrected p behind; - is no test
holm() {
    awk -F '\t' '
        { name[NR] = $1; p[NR] = $2; m += $2 != "-" }
        END {
            for (rank = m; rank > 0; rank--) {
                best = 0
                for (i = 1; i <= NR; i++)
                    if (p[i] != "-" && !(i in q) && (!best || p[i] + 0 < p[best] + 0)) best = i
                at = rank * p[best]
                if (at < least) at = least
                q[best] = least = at > 1 ? 1 : at
            }
            for (i = 1; i <= NR; i++) printf "%s\t%s\t%s\n", name[i], p[i], i in q ? q[i] : "-"
        }'
}
