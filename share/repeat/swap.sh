#!/bin/sh
# swap.sh: other routers in a pretrained model: each is put in the place of the model's own, fitted to
# it, and then all are trained on with the same data and seeds and compared.
#
# The model is a folder in Hugging Face form, or a run. Without --data the data are texts that the
# model itself draws, so that a folder without a tokenizer goes, too.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: swap.sh --model FOLDER [OPTION]...

  --model FOLDER   a pretrained model with experts
  --data FILE      text, or ids as data.format = bin reads them (texts of the model itself)
  --routers A,B    (linear,mlp:hidden=64,attention,hybrid,mlp_hadamard)
  --match N        batches on which each router is fitted to the own one (100)
  --steps N        of the training after the swap (200)
  --seeds N        of that training (5)
  --seq N          positions of a sequence (256)
  --batch N        sequences of a batch (4)
  --lr LR          learning rate (0.0003)
  --begin IDS      ids that a drawn text begins with (1)
  --out DIR        runs, tables (repeat-swap)
  --jobs N         runs at a time (1)
  --threads N      of each run (0: cores / jobs)
  --set KEY=VALUE  further keys of every run (repeatable)
  -h, --help       this text

MOEFW names the program if it is not in PATH.'

data='' model='' routers='linear,mlp:hidden=64,attention,hybrid,mlp_hadamard' match=100 steps=200
seeds=5 seq=256 batch=4 lr=0.0003 begin=1 out=repeat-swap jobs=1 threads=0 extra=''
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data model routers match steps seeds seq batch lr begin out jobs threads' "$@"
first=$begin
[ -n "$model" ] || usage_and_exit 2
[ -d "$model" ] || die 3 "cannot read $model"
for name in match steps seeds seq batch; do eval "whole --$name \"\$$name\""; done
begin

base=$out/runs/base
if [ ! -d "$base" ]; then
    if [ -f "$model/config.ini" ]; then cp -r "$model" "$base"; else "$MOEFW" import "$model" -o "$base" -q; fi >&2 ||
        exit
fi
aligned=''
if [ -z "$data" ]; then # training, too, takes each text from its beginning
    aligned="--set data.stride=$seq"
    data=$out/drawn.bin
    [ -s "$data" ] || "$MOEFW" generate "$base" --ids "$data" --begin "$first" --samples 400 \
        -n $((seq - 1)) --temp 1 --top-k 0 --top-p 1 -t "$threads" || exit
fi
keys="--set data.path=$data --set model.seq=$seq --set train.batch=$batch $aligned $extra"

# folder ENTRY: its name, as a folder
folder() {
    echo "$1" | tr -c 'a-z0-9_\n' '-'
}

list=''
for router in $(list "$routers"); do
    new=$out/runs/$(folder "$router")
    if [ ! -s "$new.json" ]; then
        rm -rf "$new"
        # shellcheck disable=SC2086 # words are words
        "$MOEFW" swap "$base" --router "$router" --fresh --match "$match" --batches 8 -o "$new" --json \
            --report "$new.html" -q -t "$threads" $keys >"$new.json.new" || die 1 "the swap of $router failed"
        mv "$new.json.new" "$new.json"
    fi
    case $router in
    *:*) list=$list,$router+train.from=$new ;;
    *) list=$list,$router:train.from=$new ;;
    esac
done
if [ ! -s "$out/compare/comparison.json" ]; then
    rm -rf "$out/compare"
    # shellcheck disable=SC2086 # words are words
    "$MOEFW" compare "$base/config.ini" --routers "${list#,}" --seeds "$seeds" --steps "$steps" \
        --out "$out/compare" --set "train.lr=$lr" --set train.eval_batches=8 --set train.eval_every=0 \
        --set "train.warmup=$((steps / 20))" -t "$threads" $keys >"$out/compare.txt" || exit
fi

echo "| router | layer | KL before the fit | KL | ratio | overlap | gates moved |"
echo "|---|---|---|---|---|---|---|"
for router in $(list "$routers"); do
    tr '{' '\n' <"$out/runs/$(folder "$router").json" | awk -v router="$router" '
        function number(key) {
            at = index($0, "\"" key "\":")
            return at ? substr($0, at + length(key) + 3) + 0 : 0
        }
        /^"layer":/ {
            printf "| %s | %d | %.4f | %.5f | %.0f | %.3f | %.3f |\n", router, number("layer"),
                number("kl_start"), number("kl"), number("kl_start") / number("kl"), number("overlap"),
                number("mass_moved")
        }'
done
echo
cat "$out/compare.txt"
