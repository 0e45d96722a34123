#!/bin/sh
# memcheck.sh [PROGRAM]: each verb under valgrind's memcheck, with the kernels of AVX2, which
# valgrind knows. Prints a line for each; the exit status is 1 if one has an error, or if a verb of
# the program is missing here. The program starts itself anew, so children are followed, but not
# compilers and shells. A verb may take MOEFW_CHECK_SECONDS (600).
set -u
program=${1:-build/moefw}
[ -x "$program" ] || { echo "memcheck.sh: $program: expected the built program" >&2; exit 2; }
program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program")
command -v valgrind >/dev/null || { echo "memcheck.sh: needs valgrind" >&2; exit 6; }
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export MOEFW_ISA=avx2 OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=1 XDG_CONFIG_HOME="$folder"
failed=0
verbs=' '

# check ARGUMENT...: the exit status of valgrind for errors is 99
check() {
    timeout --preserve-status "${MOEFW_CHECK_SECONDS:-600}" valgrind -q --trace-children=yes --trace-children-skip='*/sh,*/cc,*/gcc' \
        --error-exitcode=99 "$program" "$@" >out 2>log </dev/null
    status=$?
    case $verbs in *" $1 "*) ;; *) verbs="$verbs$1 " ;; esac
    if [ "$status" -eq 0 ]; then
        echo "ok    $*"
    else
        echo "FAIL  $* (status $status)"
        grep -m 8 '^==' log
        failed=1
    fi
}

small='--set model.layers=1 --set model.dim=8 --set model.heads=1 --set model.seq=8 --set expert.hidden=4
    --set moe.experts=2 --set moe.top_k=1 --set train.batch=2 --set train.eval_context=0
    --set data.path=builtin:topics?bytes=4000'
# The words of $small are arguments.
# shellcheck disable=SC2086
{
    check train default -q -t 1 --steps 2 --out run $small
    check compare default -q -t 1 --steps 1 --seeds 2 --routers linear,hash --out cmp $small
    check verify cmp/result.json -q -t 1 --out verified
    check board cmp
    check config check default $small
    check bench routers --routers linear --repetitions 1 --no-layer
    check plan default --device h100 $small
    check plan default --cluster "$source/share/cluster/measured.ini" --ranks 2 $small
}
check eval run -t 1
check probe run --batches 1 -t 1
check prune run --share .5 --batches 1 --calibrate 1 --draws 1 -o fewer -t 1
check generate run -p a -n 4 -t 1
check report run
check runs .
check presets
check trace record run -o run.trace --batches 1
check analyze run --batches 2 --report analyzed.html
check ckpt ls run
check ckpt verify run
check export csv run -o run.csv
check plugin list
check plugin info linear
check data info builtin:topics?bytes=4000
check config show run
check graph run
check doctor
check completion bash
check swap run --router cosine --match 1 --batches 1 -o swapped -t 1 -q
echo 'some words, and some more of the same words' >text.txt
check tokenize train bpe text.txt -o words.tokenizer --merges 4
check tokenize encode words.tokenizer text.txt
mv out ids
check tokenize decode words.tokenizer ids
check tokenize export words.tokenizer -o words.json
reference=$source/tests/golden/pretrained/mixtral/hf
few='-t 1 -q --batches 1 --set data.path=builtin:topics?bytes=4000 --set model.seq=8 --set train.batch=1'
# shellcheck disable=SC2086
{
    check import "$reference" -o imported -t 1 -q
    check quantize imported -o rounded $few
    check quantize imported -o fitted --gptq 1 $few
    check eval rounded $few
    check swap imported --router linear --match 1 -o near $few
}
check generate imported -p All -n 2 -t 1 -q
# What asks the server, which ends well when its time is over.
client() {
    until port=$(sed -n 's/.*"port":\([0-9]*\).*/\1/p' out) && [ -n "$port" ]; do sleep 1; done
    bash -c 'exec 9<>"/dev/tcp/127.0.0.1/$0"
        printf "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" "${#1}" "$1" >&9
        cat <&9' "$port" '{"prompt":[[1,5,7],[3]],"echo":true,"logprobs":2,"temperature":0,"max_tokens":1}' >answered
}
: >out
client &
given=${MOEFW_CHECK_SECONDS-} MOEFW_CHECK_SECONDS=${MOEFW_SERVE_SECONDS:-60}
check serve imported --port 0 --json -t 1
MOEFW_CHECK_SECONDS=$given
wait
grep -q '"choices"' answered || { echo "FAIL  serve did not answer"; failed=1; }
check export hf rounded -o back -t 1 -q
check export gguf imported -o imported.gguf -t 1 -q

all=$("$program" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$all" ] || failed=1
for verb in $all; do
    case $verbs in *" $verb "*) ;; *) echo "FAIL  $verb is not here"; failed=1 ;; esac
done
exit $failed
