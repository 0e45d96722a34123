#!/bin/sh
# routers.sh: measures the routers of "Optimizing MoE Routers" (arXiv 2506.16419) on random
# activations and on those of an encoder in Hugging Face form: size, entropy, mean of the two chosen
# probabilities, spread of the output, balance loss, and time.
#
# The paper's encoder is bert-base-uncased; any folder of BERT's form goes. Sentences are
# padded to 128 positions, and padding counts, as in the paper.
#
# The paper copies the feed-forward network of the encoder's first layer into all experts, so the
# table has the spread of the output with such copies, too. Its self-supervised router was trained,
# it does not say how; here it learns by InfoNCE and the balance loss, at several learning rates.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: routers.sh --encoder FOLDER --data SENTENCES.tsv [OPTION]...

  --encoder FOLDER config.json, model.safetensors and tokenizer of an encoder, or
                   a run
  --data FILE      a sentence in each line, up to a tab; the first 16 are taken
  --out DIR        activations, tables (repeat-routers)
  --seeds N        draws of weights and activations (20)
  --learn N        steps for which self_supervised is trained (200)
  --learn-seeds N  draws of weights and activations of that (3)
  --dim N          width of the random activations (768)
  --batch N        sequences of 128 tokens (16)
  --repetitions N  timings of each router; 0: none (21)
  --threads N      (0: all cores)
  -h, --help       this text

MOEFW names the program if it is not in PATH.'

data='' encoder='' out=repeat-routers seeds=20 learn=200 learn_seeds=3 dim=768 batch=16 repetitions=21 jobs=1 threads=0 extra=''
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data encoder out seeds learn learn-seeds dim batch repetitions threads' "$@"
[ -n "$data" ] || usage_and_exit 2
[ -n "$encoder" ] || usage_and_exit 2
[ -r "$data" ] || die 3 "cannot read $data"
[ -d "$encoder" ] || die 3 "cannot read $encoder"
whole --seeds "$seeds"
whole --learn "$learn"
whole --learn-seeds "$learn_seeds"
whole --dim "$dim"
whole --batch "$batch"
case $repetitions in '' | *[!0-9]*) die 2 "--repetitions: expected a whole number, found '$repetitions'" ;; esac
begin

# As the shapes of the paper's tables say: the mlp has a norm on random activations and none on
# the encoder's.
routers=linear,attention,mlp:activation=gelu+input_norm=none,hybrid,mlp_hadamard,hash,self_supervised

# bench NAME WORDS...: a line of JSON for each router
bench() {
    file=$out/$1.json
    shift
    [ -s "$file" ] && return
    "$MOEFW" bench routers --routers "$routers" --seeds "$seeds" --batch "$batch" --json -t "$threads" "$@" >"$file.new" || die 1 "moefw bench routers failed"
    mv "$file.new" "$file"
}

if [ ! -s "$out/encoder.safetensors" ]; then
    if [ ! -d "$out/runs/encoder" ]; then
        if [ -f "$encoder/config.ini" ]; then cp -r "$encoder" "$out/runs/encoder"; else "$MOEFW" import "$encoder" -o "$out/runs/encoder" -q; fi >&2 ||
            exit
    fi
    "$MOEFW" eval "$out/runs/encoder" --lines "$data" --count 16 --length 128 -t "$threads" \
        --save "$out/encoder.safetensors" >&2 || exit
fi
hidden=$out/encoder.safetensors:hidden.last
bench random --expert mlp --dim "$dim" --repetitions "$repetitions"
bench encoder --expert mlp --activations "$hidden" --padding --repetitions 0
bench copies --expert mlp --expert-of "$out/runs/encoder:0" --activations "$hidden" --padding --repetitions 0
bench tokens --expert mlp --activations "$hidden" --repetitions 0
rates='0.001 0.01'
all=$routers all_seeds=$seeds
routers=self_supervised:ss_weight=1 seeds=$learn_seeds
for rate in $rates; do
    bench "learn-$rate" --no-layer --learn "$learn" --learn-on importance2_load --learn-lr "$rate" --activations "$hidden" --padding --repetitions 0
done
bench learn-none --no-layer --activations "$hidden" --padding --repetitions 0
routers=$all seeds=$all_seeds

# number FILE ROUTER KEY FORMAT [FACTOR]
number() {
    awk -v router="\"router\":\"$2" -v key="\"$3\":" -v format="$4" -v factor="${5:-1}" '
        index($0, router) {
            at = index($0, key)
            v = substr($0, at + length(key))
            if (at && v !~ /^null/) { printf format, factor * v; exit }
        }' "$out/$1.json"
}

# mean FILE ROUTER KEY: "value ± half-width" over the draws
mean() {
    half=$(half_width "$(number "$1" "$2" "${3}_sd" %.9f)" "$(number "$1" "$2" seeds %d)")
    echo "$(number "$1" "$2" "$3" %.4f) ± $half" | sed 's/ ± -$//'
}

# published ROUTER: parameters, ms, entropy, top-2 of random activations; entropy, top-2, spread and
# balance loss of the encoder's
published() {
    case $1 in
    linear) echo '6,144 .07 1.9513 .2129 2.0680 .1486 .03083 .00126' ;;
    attention) echo '49,664 .29 2.0793 .1273 2.0793 .1271 .02950 .00125' ;;
    mlp) echo '101,000 .23 2.0769 .1361 2.0793 .1277 .06820 .00125' ;;
    hybrid) echo '55,810 .58 2.0476 .1686 2.0767 .1368 .03197 .00126' ;;
    mlp_hadamard) echo '101,000 .88 1.1003 .4152 - - - -' ;;
    hash) echo '0 85.0 0 .5000 0 .5000 .03213 .00229' ;;
    self_supervised) echo '- - - - .6146 .5000 .02987 .00218' ;;
    esac
}

names='linear attention mlp hybrid mlp_hadamard hash self_supervised'
echo "Random activations, $dim wide, 8 experts, top 2, $batch x 128 tokens, means over $seeds draws"
echo
echo "| router | published parameters | ours | published ms of a token alone | ours | published entropy | ours | published mean of two | ours |"
echo "|---|---|---|---|---|---|---|---|---|"
for r in $names; do
    # shellcheck disable=SC2046 # words are words
    set -- $(published "$r")
    echo "| $r | $1 | $(number random "$r" params %d) | $2 | $(number random "$r" ns_per_token_layer_1 %.3f 1e-6) | $3 | $(mean random "$r" entropy_token) | $4 | $(mean random "$r" top_prob) |"
done
echo
echo "Activations of the encoder, $(number encoder linear d_model %d) wide, the same routers"
echo
echo "| router | published entropy | ours | tokens only | published mean of two | ours | tokens only | published output sd | ours, drawn experts | ours, copies of layer 0 | published balance loss | ours | tokens only |"
echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
for r in $names; do
    # shellcheck disable=SC2046 # words are words
    set -- $(published "$r")
    echo "| $r | $5 | $(mean encoder "$r" entropy_token) | $(number tokens "$r" entropy_token %.4f) | $6 | $(mean encoder "$r" top_prob) | $(number tokens "$r" top_prob %.4f) | $7 | $(number encoder "$r" output_std %.5f) | $(number copies "$r" output_std %.5f) | $8 | $(number encoder "$r" importance2_load %.5f) | $(number tokens "$r" importance2_load %.5f) |"
done
echo
echo "The self-supervised router after $learn steps of InfoNCE and balance loss, $learn_seeds draws"
echo
echo "| learning rate | published entropy | entropy of 8 probabilities | of the two gates | published mean of two | of 8 probabilities | of the two gates | published balance loss | ours |"
echo "|---|---|---|---|---|---|---|---|---|"
for rate in none $rates; do
    name=$rate
    [ "$rate" != none ] || name='not trained'
    r=self_supervised
    echo "| $name | .6146 | $(mean "learn-$rate" $r entropy_token) | $(mean "learn-$rate" $r entropy_gate) | .5000 | $(number "learn-$rate" $r top_prob %.4f) | .5 | .00218 | $(number "learn-$rate" $r importance2_load %.5f) |"
done
echo
echo "±: half of the 95 % interval over draws. The mean of two gates that sum to 1 is .5 for every router."
