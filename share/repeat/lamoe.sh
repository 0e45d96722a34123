#!/bin/sh
# lamoe.sh: the log that LaMoE publishes (github.com/harishhirthi/LaMoE, README: 30 iterations of
# batch 32, context 300), with ours beside it.
#
# The vocabulary is trained here, on a text of your own (WikiText-2 test.txt: 1.2 MB), with at most
# the published 29,627 ids. For lamoe, that text gives 15,398 ids, because pairs that occur once are
# not merged. For lamoe-as-run, which follows LaMoE's trainer, it gives 14,083; that trainer drops
# characters, so every ninth token of another text (valid.txt) is <unk>. The model has the published
# number of ids in either case. LaMoE's texts are not published, so the losses can be compared in
# their start, ln 29627 = 10.297, and in their decrease. The published "step 0" is measured after
# the first update; ours is measured there too, and before it.
#
# From 100 steps on it repeats the longer run instead, of which LaMoE publishes that it overfits
# after 300 of its 1,000 iterations, and texts: validation after every hundredth step, where the
# validation loss is lowest, and texts for LaMoE's prompts, of the last and of the best weights. A
# whole step takes a minute on two cores, so --set and --vocab-size make the model smaller.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: lamoe.sh --train TEXT [--val TEXT] [OPTION]...

  --train TEXT       trained on, and the vocabulary made of (WikiText-2 test.txt)
  --val TEXT         validated on (the last tenth of --train)
  --out DIR          vocabulary, token files, run, table (repeat-lamoe)
  --preset NAME      lamoe or lamoe-as-run (lamoe-as-run)
  --steps N          (30; the published run has 1000)
  --vocab-size N     ids of the vocabulary and of the model (29627)
  --eval-batches N   batches of a validation, of each split (2; the published log has 300)
  --val-tokens N     tokens validated on at the end (20000)
  --threads N        (0: all cores)
  --set KEY=VALUE    further keys (repeatable)
  -h, --help         this text

A step is 2.5 TFLOP: 10 to 40 seconds on two cores, and 4.4 GiB of memory. Interrupted,
the same command goes on. MOEFW names the program if it is not in PATH.'

data=train.bin out=repeat-lamoe jobs=1 threads=0 extra=''
train='' val='' preset=lamoe-as-run steps=30 vocab_size=29627 eval_batches=2 val_tokens=20000
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'train val out preset steps vocab-size threads eval-batches val-tokens' "$@"
[ -n "$train" ] || usage_and_exit 2
for file in "$train" ${val:+"$val"}; do
    [ -r "$file" ] || die 3 "cannot read $file"
done
whole --steps "$steps"
whole --vocab-size "$vocab_size"
whole --eval-batches "$eval_batches"
whole --val-tokens "$val_tokens"
begin
out=$(cd "$out" && pwd)

# made FILE COMMAND...: creates the file once, and never leaves a part of it
made() {
    file=$1
    shift
    [ -e "$file" ] || "$@" >&2 || die 1 "cannot make $file"
}
trainer=own
[ "$preset" != lamoe-as-run ] || trainer=lamoe
made "$out/bpe.json" "$MOEFW" tokenize train bpe "$train" --clean --eos --vocab-size "$vocab_size" --trainer $trainer -o "$out/bpe.json"
made "$out/train.bin" "$MOEFW" tokenize encode "$out/bpe.json" "$train" --clean --eos --bin "$out/train.bin"
# a val.bin of the required size, which also limits the final validation
cut_tokens() {
    tail -c $((2 * val_tokens)) "$1" >"$out/val.tmp" && mv "$out/val.tmp" "$out/val.bin"
}
if [ ! -e "$out/val.bin" ] && [ -n "$val" ]; then
    made "$out/val-all.bin" "$MOEFW" tokenize encode "$out/bpe.json" "$val" --clean --eos --bin "$out/val-all.bin"
    cut_tokens "$out/val-all.bin" || die 1 "cannot make $out/val.bin"
elif [ ! -e "$out/val.bin" ]; then
    cut_tokens "$out/train.bin" || die 1 "cannot make $out/val.bin"
    size=$(wc -c <"$out/train.bin")
    [ "$size" -gt $((4 * val_tokens)) ] || die 3 "$train is too short to take $val_tokens tokens from its end"
    head -c $((size - 2 * val_tokens)) "$out/train.bin" >"$out/train.tmp" && mv "$out/train.tmp" "$out/train.bin"
fi

data=$out/train.bin
run=$preset-$steps
keys="--set data.val_path=$out/val.bin --set data.tokenizer=$out/bpe.json --set train.eval_batches=$eval_batches --set model.vocab=$vocab_size"
every=10 best=no
[ "$steps" -lt 100 ] || every=100 best=yes
# In the short run the first step alone, to measure after it; then all steps.
# shellcheck disable=SC2086 # words are words
[ $every -eq 100 ] || plan "$preset-1" "$preset" $keys --set train.keep_best=no --steps 1
# shellcheck disable=SC2086 # words are words
plan "$run" "$preset" $keys --set train.log_every=1 --set train.eval_every=$every --set train.save_every=$every \
    --set train.keep_best=$best --steps "$steps"
carry_out

# seconds RUN UPDATES: of a step, the mean up to this one
seconds() {
    { value "$1" train tokens "$2"; value "$1" train tokens_per_s "$2"; } | tr '\n' ' ' |
        awk -v steps="$2" '$2 > 0 { printf "%.1f", $1 / steps / $2 }'
}

# row PUBLISHED-STEP TRAIN VAL OUR-RUN OUR-UPDATES [VAL-PERPLEXITY]
row() {
    [ "$5" -le "$steps" ] || return 0
    ppl=$(value "$4" val ppl_batch_mean "$5" | awk '{ if ($1 > 0) printf "%.0f", $1 }')
    echo "| $1 | $2 | $(value "$4" train_eval loss "$5") | $3 | $(value "$4" val loss "$5") | ${6-} | $ppl | $5 | $(seconds "$4" "$5") |"
}

log() {
    echo "| published step | train | ours | val | ours | val perplexity | ours | our updates | s / step |"
    echo "|---|---|---|---|---|---|---|---|---|"
    row 0 10.1466 10.1594 "$preset-1" 1 25829
    row 10 7.9938 8.0461 "$run" 10
    row 20 7.8404 7.9065 "$run" 20
    row 29 7.7290 7.7793 "$run" 30
    echo
    echo "Losses include the auxiliary loss; perplexity does not, and is the mean over batches. The published steps count from 0 and are measured after their update."
}

long() {
    echo "| step | train loss | val loss | val perplexity |"
    echo "|---|---|---|---|"
    step=100
    while [ $step -le "$steps" ]; do
        echo "$step $(value "$run" train_eval loss $step) $(value "$run" val loss $step) $(value "$run" val ppl_batch_mean $step)" |
            awk '{ printf "| %d | %.4f | %.4f | %.1f |\n", $1, $2, $3, $4 }'
        step=$((step + 100))
    done
    echo
    awk '/"split":"val"/ {
            match($0, /"loss":[0-9.e+-]+/); loss = substr($0, RSTART + 7, RLENGTH - 7) + 0
            match($0, /"step":[0-9]+/); step = substr($0, RSTART + 7, RLENGTH - 7)
            if (best == "" || loss < best) { best = loss; at = step }
        }
        END { printf "The validation loss is lowest, %.4f, at step %d; published: overfits after 300 iterations.\n", best, at }' \
        "$out/runs/$run/metrics.jsonl"
    echo "A step took $(awk '/"split":"train"/ && match($0, /"tokens_per_s":[0-9.e+]+/) { print substr($0, RSTART + 15, RLENGTH - 15) }' \
        "$out/runs/$run/metrics.jsonl" | sort -n | awk -v t="$(value "$run" train tokens)" -v n="$steps" '
            { v[NR] = $1 } END { printf "%.2f", t / n / v[int((NR + 1) / 2)] }') s (the median)."
    for weights in last best; do
        echo
        echo "Texts of the $weights weights: temperature .6, top-p .9, at most 64 tokens"
        echo
        folder=$out/runs/$run
        [ $weights = last ] || folder=$folder/best
        for prompt in 'Science and Technology are' 'Once, upon a time' Physics 'String theory states that' 'Artificial Intelligence is the'; do
            text=$("$MOEFW" generate "$folder" -q -p "$prompt" --temp 0.6 --top-p 0.9 --top-k 0 -n 64 --seed 1 -t "$threads") ||
                die 1 "cannot generate text of $folder"
            echo "- $(printf '%s' "$text" | tr '\n' ' ')"
        done
    done
}

{
    params=$(sed -E 's/.*"params":([0-9]+).*/\1/' "$out/runs/$run/manifest.json")
    echo "$preset: $params parameters (published: 134188608); $(($(wc -c <"$out/train.bin") / 2)) training tokens"
    echo
    echo "Loss before the first update: $(value "$run" train task_loss 1) (ln $vocab_size = $(awk -v n="$vocab_size" 'BEGIN { printf "%.4f", log(n) }'))"
    echo
    if [ $every -eq 10 ]; then log; else long; fi
} >"$out/table.md" || exit
cat "$out/table.md"
