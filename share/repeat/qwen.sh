#!/bin/sh
# qwen.sh: the fine-tuning of "Optimizing MoE Routers" (arXiv 2506.16419, sections III-G and III-H):
# the routers of a model of the form of Qwen1.5-MoE are replaced by new ones, which are not fitted,
# and 50 steps train low-rank changes of the attention (and, with the attention router, of its query)
# on the first 100 lines of Tiny Shakespeare. Printed are the losses of steps 10 to 50.
#
# The paper's code takes the number of experts a token from the model (4), else 8: both are here.
#
# Each line is one sequence, padded to 256 tokens, and labels are the ids themselves, so padding is
# predicted, too: 96 of 100 targets, with the vocabulary of qwen_small.ini. The second table has the
# same runs with the loss of the text alone. Losses are means of 10 steps, as the paper's trainer
# logs them.
#
# --model is a folder with such a model in Hugging Face form. Without it the model is qwen_small.ini,
# which is first trained on a text: then losses compare between routers, not with the paper's.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: qwen.sh --data tinyshakespeare.txt (--model FOLDER | --train TEXT) [OPTION]...

  --model FOLDER   a pretrained model with experts, or a run
  --train TEXT     trains qwen_small.ini on it instead (WikiText-2 test.txt)
  --val TEXT       validated on (the last tenth of --train)
  --train-steps N  of that training (1000)
  --lines N        of --data (100)
  --seq N          tokens of a line with its padding (256)
  --pad ID         id of the padding (0; of Qwen: 151643)
  --routers LIST   own,linear,attention,attention8 (all; own: not replaced,
                   attention8: 8 experts a token)
  --steps N        of the fine-tuning (50)
  --seeds LIST     (1,2,3)
  --out DIR        runs, tables (repeat-qwen)
  --jobs N         runs at a time (1)
  --threads N      of each run (0: cores / jobs)
  --set KEY=VALUE  further keys of the fine-tuning (repeatable)
  -h, --help       this text

Interrupted, the same command goes on. MOEFW names the program if it is not in PATH.'

data='' model='' train='' val='' train_steps=1000 lines=100 seq=256 pad=0 routers=own,linear,attention,attention8
steps=50 seeds=1,2,3 out=repeat-qwen jobs=1 threads=0 extra=''
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data model train val train-steps lines seq pad routers steps seeds out jobs threads' "$@"
if [ -z "$data" ] || [ -z "$model$train" ]; then usage_and_exit 2; fi
for file in "$data" ${train:+"$train"} ${val:+"$val"}; do
    [ -r "$file" ] || die 3 "cannot read $file"
done
[ -z "$model" ] || [ -d "$model" ] || die 3 "cannot read $model"
for name in train_steps lines seq steps; do
    eval "whole --$(echo $name | tr _ -) \"\$$name\""
done
case $pad in '' | *[!0-9]*) die 2 "--pad: expected an id, found '$pad'" ;; esac
for seed in $(list "$seeds"); do
    whole --seeds "$seed"
done
for router in $(list "$routers"); do
    case $router in own | linear | attention | attention8) ;; *) die 2 "--routers: '$router' is none of own, linear, attention, attention8" ;; esac
done
begin
out=$(cd "$out" && pwd)

# ---- the model ----

base=$out/runs/base
if [ -n "$model" ]; then
    if [ ! -d "$base" ]; then
        if [ -f "$model/config.ini" ]; then cp -r "$model" "$base"; else "$MOEFW" import "$model" -o "$base" -q; fi >&2 ||
            exit
    fi
else
    [ -s "$out/bpe.json" ] || "$MOEFW" tokenize train bpe_bytes "$train" --vocab-size=2048 -o "$out/bpe.json" >&2 || exit
    fine_data=$data fine_extra=$extra
    data=$train extra=''
    plan base "$here/qwen_small.ini" --steps "$train_steps" --set "data.tokenizer=$out/bpe.json" \
        ${val:+--set "data.val_path=$val"}
    carry_out
    runs_planned='' data=$fine_data extra=$fine_extra
fi
tokenizer=$base/tokenizer.json
[ -r "$tokenizer" ] || die 3 "$base has no tokenizer.json"

# ---- the lines ----

# Text alone: a document for each line that is not empty. With padding: seq ids of 32 bits for each line.
head -n "$lines" "$data" | grep . | sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/{"text":"&"}/' >"$out/lines.jsonl"
if [ ! -s "$out/lines.bin" ]; then
    head -n "$lines" "$data" | while IFS= read -r line; do
        printf '%s' "$line" >"$out/line"
        ids=''
        [ -z "$line" ] || ids=$("$MOEFW" tokenize encode "$tokenizer" "$out/line") || exit
        printf '%b' "$(echo "$ids" | awk -v seq="$seq" -v pad="$pad" '{
            for (i = 1; i <= seq; i++) {
                id = i <= NF ? $i : pad
                for (b = 0; b < 4; b++) { printf "\\0%o", id % 256; id = int(id / 256) }
            }
        }')"
    done >"$out/lines.new" || die 1 "cannot encode the lines of $data"
    mv "$out/lines.new" "$out/lines.bin"
    rm -f "$out/line"
fi
[ "$(wc -c <"$out/lines.bin")" -eq $((4 * lines * seq)) ] || die 3 "$data has fewer than $lines lines"

# ---- routers, and their fine-tuning ----

# run_of ROUTER SEED: the run with this router
run_of() {
    if [ "$1" = own ]; then echo "$base"; else echo "$out/runs/$1-$2"; fi
}
data=''
attention='attention.q,attention.k,attention.v,attention.o'
for seed in $(list "$seeds"); do
    for router in $(list "$routers"); do
        at=$attention keys=''
        case $router in
        own | linear) name=linear ;;
        *) name=attention:qk_dim=64 at=$attention,router.query ;;
        esac
        [ "$router" != attention8 ] || keys='--set moe.top_k=8'
        new=$(run_of "$router" "$seed")
        # shellcheck disable=SC2086 # words are words
        [ -e "$new/config.ini" ] || "$MOEFW" swap "$base" --router "$name" --fresh --batches 1 -o "$new" -q \
            --data "$out/lines.jsonl" --set data.val_path= --set "train.seed=$seed" -t "$threads" $keys >>"$out/log" || die 1 "the swap of $router failed"
        lora="--set adapter.lora.plugin=lora --set adapter.lora.rank=8 --set adapter.lora.alpha=32
            --set adapter.lora.dropout=0.05 --set adapter.lora.at=$at --set train.freeze=*"
        how="--steps $steps --seed $seed --set train.batch=2 --set train.accumulate=4 --set train.lr=2e-4
            --set train.schedule=linear --set train.lr_min=0 --set train.warmup=0 --set train.weight_decay=0
            --set train.beta2=0.999 --set train.clip=1 --set train.log_every=1 --set train.eval_every=0
            --set train.save_every=$steps --set data.split=1 --set data.val_path= --set report.enabled=no"
        # shellcheck disable=SC2086 # words are words
        plan "tuned-padded-$router-$seed" "$new/config.ini" $lora $how --set "data.path=$out/lines.bin" \
            --set data.format=bin --set data.bin_bits=32 --set "data.stride=$seq" --set model.seq=$((seq - 1))
        # shellcheck disable=SC2086 # words are words
        plan "tuned-text-$router-$seed" "$new/config.ini" $lora $how --set "data.path=$out/lines.jsonl" \
            --set "model.seq=$((seq - 1))" --set data.padding=batch
    done
done
carry_out

# ---- tables ----

published() { # ROUTER
    case $1 in
    linear) echo '1.9086 .1569 .0027 .0009 .0006' ;;
    attention*) echo '9.645 6.0565 3.5086 1.7095 .7318' ;;
    *) echo '- - - - -' ;;
    esac
}

table() { # padded|text
    echo "| router | published 10, 20, 30, 40, 50 | ours, 10 | 20 | 30 | 40 | 50 |"
    echo "|---|---|---|---|---|---|---|"
    for router in $(list "$routers"); do
        told=$(published "$router")
        [ "$1" = padded ] || told=-
        line="| $router | $told |"
        for part in 1 2 3 4 5; do
            loss=$(for seed in $(list "$seeds"); do
                average "tuned-$1-$router-$seed" train task_loss $(((part - 1) * steps / 5)) $((part * steps / 5))
            done | interval | awk '{ print $2 == "-" ? $1 : $1 " ± " $2 }')
            line="$line $loss |"
        done
        echo "$line"
    done
}
{
    echo "Loss of the fine-tuning, means of $((steps / 5)) steps, seeds $seeds, 95 % intervals; padding counts"
    echo
    table padded
    echo
    echo "The same, the loss of the text alone"
    echo
    table text
} >"$out/table.md"
cat "$out/table.md"
