#!/bin/sh
# verified.sh [PROGRAM] [FOLDER]: ten results of different routers, presets and data, made with one
# thread and verified: whole with two threads, whole on two ranks, and by a segment from a kept
# checkpoint on another kernel set. Then a number, a plugin and a byte of the data are
# falsified. Prints a line for each; the exit status is 1 if one does not hold. With FOLDER the
# results stay there.
set -u
program=${1:-build/moefw}
[ -x "$program" ] || { echo "verified.sh: $program: expected the built program" >&2; exit 2; }
built=$(cd "$(dirname "$program")" && pwd)
program=$built/$(basename "$program")
source=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -gt 1 ]; then
    folder=$2
    mkdir "$folder" || exit 2
else
    folder=$(mktemp -d) || exit 1
    trap 'rm -rf "$folder"' EXIT
fi
cd "$folder" || exit 1
export XDG_CONFIG_HOME="$PWD/config" OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
failed=0
launch=${MOEFW_LAUNCH-mpirun -n 2}

# ---- the results ----

mkdir data own log
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s ", substr("the quick brown fox jumps over a lazy dog again", i * 7 % 40 + 1, 5); print "" }' >data/text.txt
awk 'BEGIN { print "sentence\tlabel"; for (i = 0; i < 300; i++) printf "%s %d\t%d\n", i % 3 ? "good news" : "bad news", i * i % 17, (i % 3 > 0) != (i % 5 == 0) }' >data/classes.tsv
# shellcheck disable=SC2086 # may have words
${CC:-cc} -std=gnu11 -O1 -I"$source/include" -I"$built/include" -fPIC -fvisibility=hidden -shared -o own/handicap.so \
    "$source/tests/plugins/third_party/handicap.c" -lm || exit 1
keys='--set train.accumulate=2 --set train.steps=60 --set train.log_every=5 --set train.save_every=20 --set train.keep=9
    --set train.eval_every=30 --set train.eval_batches=2'
small="$keys --set model.layers=2 --set model.dim=32 --set model.heads=2 --set model.seq=32 --set expert.hidden=32
    --set train.batch=2 --set train.eval_context=0"
text='--data data/text.txt --set data.tokenizer=char'

# The words are arguments.
# shellcheck disable=SC2086
comparison() {
    name=$1
    shift
    "$program" compare "$@" --seeds 2 -t 1 -q -o "$name" $keys >"log/$name" 2>&1 || { cat "log/$name"; exit 1; }
}
# shellcheck disable=SC2086
training() {
    name=$1
    shift
    if ! { "$program" train "$@" -t 1 -q --out "$name" $keys && "$program" export result "$name"; } >"log/$name" 2>&1; then
        cat "log/$name"
        exit 1
    fi
}
# shellcheck disable=SC2086
{
    comparison text-linear-mlp default $small $text --routers linear,mlp
    comparison topics-cosine-quantile default $small --data 'builtin:topics?bytes=60000' --routers cosine,quantile
    training topics-noisy_topk default $small --data 'builtin:topics?bytes=60000' --set router.plugin=noisy_topk
    training text-hash default $small $text --set router.plugin=hash
    training text-sigmoid_bias default $small $text --set router.plugin=sigmoid_bias --set controller.b.plugin=expert_bias
    training text-expert_choice default $small $text --set router.plugin=expert_choice --set moe.force_causal=yes
    training text-muon-dropout default $small $text --set train.optimizer=muon --set train.dropout=.1
    training classes-linear default $small --data data/classes.tsv --set data.val_path=data/classes.tsv --set model.task=classify
    training switch-quick switch-quick $text --set train.batch=2
    training text-handicap default $small $text --plugin own/handicap.so --set router.plugin=own/handicap.so
}

# ---- verified ----

# ran RESULT WORDS...: verify, into its log; the last line is in `last`
ran() {
    result=$1
    shift
    rm -rf out
    "$program" verify "$result" --data "${data:-data}" --plugins "${own:-own}" -o out -q "$@" >log/verify 2>&1
    status=$?
    last=$(tail -n 1 log/verify)
}
line() {
    if [ "$1" -eq 0 ]; then word=ok; else word=FAIL failed=1; fi
    printf '%-4s  %-24s  %-34s  %s\n' "$word" "$2" "$3" "$4"
    [ "$1" -eq 0 ] || sed 's/^/        /' log/verify
}

for result in */result.json; do
    name=${result%/result.json}
    for how in threads ranks; do
        if [ $how = threads ]; then
            ran "$result" --seeds 9 -t 2
            text='whole, 2 threads'
        elif [ -n "$launch" ]; then
            ran "$result" --seeds 9 -t 1 --launch "$launch"
            text="whole, $launch"
        else
            continue
        fi
        case $status$last in 0VERIFIED:*' same bits') good=0 ;; *) good=1 ;; esac
        line $good "$name" "$text" "$last"
    done
    from=$name
    [ -d "$name/ckpt" ] || from=$(find "$name" -name ckpt | sort | tail -n 1)
    MOEFW_KERNELS=ref ran "$result" -t 1 --from "${from%/ckpt}"
    found=$(sed -n 's/^run  *//p; s/^ *losses differ/losses differ/p' log/verify | tr '\n' ' ')
    grep -q 'same within rounding' log/verify && [ $status -eq 0 ]
    line $? "$name" 'a segment, reference kernels' "$found"
done

# ---- falsified ----

# falsify RESULT SED NEW: changes the text, and makes its hash anew
falsify() {
    sed "$2" "$1" | tr -d '\n' | sed 's/"self":"[0-9a-f]*"}$/"self":""}/' >"$3.empty"
    hash=$(sha256sum "$3.empty")
    sed "s/\"self\":\"\"}\$/\"self\":\"${hash%% *}\"}/" "$3.empty" >"$3"
}
# named STATUS TEXT WHAT: the last verification ended so, and named the cause
named() {
    [ "$status" -eq "$1" ] && grep -qF -e "$2" log/verify
    line $? "$3" 'found and named' "$(grep -F -m 1 -e "$2" log/verify | sed 's/^moefw: //; s/  */ /g')"
}

cp text-linear-mlp/result.json good.json
falsify good.json 's/\[5,\([0-9]\)\.\([0-9]\)/[5,\1.0\2/' number.json
ran number.json --router linear --seed 1 -t 1
named 1 'first: step 5: loss: the file says' 'a falsified number'
falsify good.json 's/"mean":\([0-9]\)\.[0-9]*/"mean":\1.25/' table.json
ran table.json -t 1
named 1 'the table is not that of the runs' 'a number of the table'
mkdir false wrong
# shellcheck disable=SC2086 # may have words
${CC:-cc} -std=gnu11 -O0 -I"$source/include" -I"$built/include" -fPIC -fvisibility=hidden -shared -o false/handicap.so \
    "$source/tests/plugins/third_party/handicap.c" -lm || exit 1
own=false ran text-handicap/result.json -t 1
named 3 'plugin handicap.so: no file with its SHA-256' 'an exchanged plugin'
sed 's/q/Q/' data/text.txt >wrong/text.txt # one byte of one line
data=wrong ran good.json -t 1
named 3 'path text.txt: no file with its SHA-256' 'a changed byte of data'
exit $failed
