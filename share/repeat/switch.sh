#!/bin/sh
# switch.sh: the tables of "Enhancing Switch Transformer with Adaptive Capacity, Reassignment
# Routing, and Expert Diversity Regularization" (Singh and Adithya), ours beside the published, and
# a fair test of the question that they leave open.
#
#   part 1  the published code's own conditions (presets switch-as-run, switch-plus-as-run): each
#           window once per epoch. Both models see later characters, and nearly all of the
#           validation text was trained on, so these losses compare with the published ones only.
#   part 2  one change at a time to one base model (preset switch: causal, with positions, the
#           last 5 % of the text for validation), same batches for the same seed: means over seeds
#           with 95 % intervals, and the paired difference from the base.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: switch.sh --data tinyshakespeare.txt [OPTION]...

  --out DIR        runs, tables (repeat-switch)
  --part 1|2|all   which part (all)
  --models LIST    part 1 (switch,switch-plus)
  --epochs N       part 1 (1; the published tables have 5)
  --steps N        part 2: steps of a run (8000)
  --seeds LIST     part 2 (1,2,3)
  --changes LIST   part 2: base,adaptive,reassign,tia_r,simbal,balance,all (these) and shared
  --jobs N         runs at a time (1)
  --threads N      of each run (0: cores / jobs)
  --set KEY=VALUE  further keys of every run (repeatable)
  -h, --help       this text

Interrupted, the same command goes on. MOEFW names the program if it is not in PATH.'

data='' out=repeat-switch part=all epochs=1 steps=8000 seeds=1,2,3 jobs=1 threads=0 extra=''
changes=base,adaptive,reassign,tia_r,simbal,balance,all models=switch,switch-plus
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data out part models epochs steps seeds changes jobs threads' "$@"
[ -n "$data" ] || usage_and_exit 2
[ -r "$data" ] || die 3 "cannot read $data"
case $part in 1 | 2 | all) ;; *) die 2 "--part: expected 1, 2 or all, found '$part'" ;; esac
for model in $(list "$models"); do
    case $model in switch | switch-plus) ;; *) die 2 "--models: '$model' is none of switch, switch-plus" ;; esac
done
whole --epochs "$epochs"
whole --steps "$steps"

# changes_of NAME: the options that make the change
changes_of() {
    case $1 in
    base) echo switch ;;
    shared) echo switch --set model.share_layers=yes ;;
    adaptive) echo switch --set moe.adaptive_capacity=0.2 ;;
    reassign) echo switch --set moe.overflow=reassign ;;
    tia_r) echo switch --set router.plugin=tia_r --set router.bias=yes --set router.init=uniform --set router.lambda=0.5 --set router.std=sample ;;
    simbal) echo switch --set regularizer.simbal.weight=0.001 ;;
    balance) echo switch --set regularizer.balance.plugin=load_balance --set regularizer.balance.count=admitted --set regularizer.balance.weight=0.01 ;;
    all) echo switch-plus ;;
    *) die 2 "--changes: '$1' is none of base, adaptive, reassign, tia_r, simbal, balance, all, shared" ;;
    esac
}
# in the order of the table
name_of() {
    case $1 in
    base) echo "base" ;;
    shared) echo "+ shared blocks" ;;
    adaptive) echo "+ adaptive capacity" ;;
    reassign) echo "+ reassignment" ;;
    tia_r) echo "+ TIA-R priority" ;;
    simbal) echo "+ SimBal" ;;
    balance) echo "+ balance loss" ;;
    all) echo "all of these" ;;
    esac
}
for change in $(list "$changes"); do
    changes_of "$change" >/dev/null || exit 2
done
for seed in $(list "$seeds"); do
    whole --seeds "$seed"
done

epoch=33111 # batches of 32 windows in the 1,059,564 that the published split trains on
begin
if [ "$part" != 2 ]; then
    for model in $(list "$models"); do
        plan "$model-as-run" "$model-as-run" --set train.epochs="$epochs" \
            --set train.eval_every=$epoch --set train.eval_batches=0
    done
fi
if [ "$part" != 1 ]; then
    for seed in $(list "$seeds"); do
        for change in $(list "$changes"); do
            # shellcheck disable=SC2046 # words are words
            plan "$change-$seed" $(changes_of "$change") --steps "$steps" --seed "$seed" \
                --set train.eval_every=1000
        done
    done
fi
carry_out

published() { # MODEL EPOCH -> "train val drop"
    case $1-$2 in
    switch-1) echo 2.0496 1.9760 .0308 ;;
    switch-2) echo 1.9974 1.9609 .0273 ;;
    switch-3) echo 1.9863 1.9506 .0221 ;;
    switch-4) echo 1.9800 1.9459 .0188 ;;
    switch-5) echo 1.9758 1.9425 .0181 ;;
    switch-plus-1) echo 2.0108 1.8781 0 ;;
    switch-plus-2) echo 1.9024 1.8486 0 ;;
    switch-plus-3) echo 1.8763 1.8287 0 ;;
    switch-plus-4) echo 1.8710 1.8129 0 ;;
    switch-plus-5) echo 1.8487 1.7939 0 ;;
    *) echo - - - ;;
    esac
}

# per_token NAME [FROM TO]: reassigned assignments / tokens trained on
per_token() {
    total "$1" train reassigned "${2-0}" "${3-$steps}" |
        awk -v steps=$((${3-$steps} - ${2-0})) '{ print $1 / (steps * 2048) }'
}

routing_head() {
    echo
    echo "Routes at the end, over the validation batches: the mean over tokens of the largest probability,"
    echo "each expert's probabilities summed over the tokens, and the share of the tokens that it took"
    echo
    echo "| model | layer | mean largest probability | sums of probabilities | load |"
    echo "|---|---|---|---|---|"
}

# routing_rows TITLE RUN: a table row for each layer
routing_rows() {
    for key in max_prob prob_sum load; do
        layers "$2" val $key | sed "s/^/$key /"
    done | awk -v name="$1" '
        {
            key = $1; layer = $2
            if (!(layer in seen)) { seen[layer] = 1; order[n++] = layer }
            text = ""
            form = key == "max_prob" ? "%.4f" : key == "load" ? "%.3f" : "%.0f"
            for (i = 3; i <= NF; i++) text = text (i > 3 ? " " : "") ($i == "-" ? "-" : sprintf(form, $i))
            cell[layer, key] = text
        }
        END {
            for (i = 0; i < n; i++)
                printf "| %s | %d | %s | %s | %s |\n", name, order[i], cell[order[i], "max_prob"],
                       cell[order[i], "prob_sum"], cell[order[i], "load"]
        }'
}

part1() {
    echo "Part 1: the published conditions (drop: tokens dropped, summed over both layers, / tokens)"
    echo
    echo "| model | epoch | published train | ours | published val | ours | published drop | ours | reassigned / tokens |"
    echo "|---|---|---|---|---|---|---|---|---|"
    for model in $(list "$models"); do
        e=1
        while [ $e -le "$epochs" ]; do
            from=$(((e - 1) * epoch)) to=$((e * epoch))
            run=$model-as-run
            at=$to
            [ $e -lt "$epochs" ] || at= # the last line of the file
            # shellcheck disable=SC2046 # words are words
            set -- $(published "$model" $e)
            printf '%s %s %s %s %s %s %s %s %s\n' "$model" $e "$1" \
                "$(average "$run" train task_loss $from $to)" "$2" "$(value "$run" val task_loss $at)" "$3" \
                "$(average "$run" train dropped_per_token $from $to)" "$(per_token "$run" $from $to)" |
                awk '{ printf "| %s | %d | %s | %.4f | %s | %.4f | %s | %.4f | %.4f |\n",
                       $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
            e=$((e + 1))
        done
    done
    routing_head
    for model in $(list "$models"); do
        routing_rows "$model" "$model-as-run"
    done
    echo
    echo "The published drop rate of the second model was never counted: its script reads a counter"
    echo "that the model does not return. Ours is counted in every step."
}

# differences CHANGE: from base, seed by seed, one a line; nothing for base or without it
differences() {
    [ "$1" != base ] || return 0
    for seed in $(list "$seeds"); do
        [ -e "$out/runs/base-$seed/metrics.jsonl" ] || continue
        echo "$(value "$1-$seed" val task_loss) $(value "base-$seed" val task_loss)" | awk '{ print $1 - $2 }'
    done
}

part2() {
    echo "Part 2: one change at a time, $steps steps, seeds $seeds (95 % intervals)"
    echo
    echo "| model | val loss | difference from base | p | p after Holm | dropped / tokens | reassigned / tokens | CV of load | tokens/s |"
    echo "|---|---|---|---|---|---|---|---|---|"
    tab=$(printf '\t')
    judged=$(for change in $(list "$changes"); do
        p=-
        lines=$(differences "$change")
        [ -z "$lines" ] || p=$(echo "$lines" | t_test "")
        echo "$change$tab$p"
    done | holm)
    for change in $(list "$changes"); do
        losses='' drops='' moves='' loads='' speeds=''
        for seed in $(list "$seeds"); do
            run=$change-$seed
            losses="$losses $(value "$run" val task_loss)"
            drops="$drops $(average "$run" train dropped_per_token)"
            moves="$moves $(per_token "$run")"
            loads="$loads $(value "$run" val load_cv)"
            speeds="$speeds $(average "$run" train tokens_per_s)"
        done
        lines=$(differences "$change")
        # shellcheck disable=SC2086 # words are words
        {
            interval_of() { printf '%s\n' "$@" | interval; }
            printf '%s\n' "$(name_of "$change")"
            interval_of $losses
            if [ -z "$lines" ]; then echo "- -"; else interval_of $lines; fi
            interval_of $drops
            interval_of $moves
            interval_of $loads
            interval_of $speeds
            echo "$judged" | awk -F '\t' -v c="$change" '$1 == c { print $2, $3 }'
        } | awk '
            NR == 1 { name = $0 }
            NR == 2 { loss = $1 " ± " $2 }
            NR == 3 { diff = $1 == "-" ? "" : sprintf("%+.4f ± %s", $1, $2) }
            NR == 4 { drop = $1 }
            NR == 5 { moved = $1 }
            NR == 6 { load = $1 }
            NR == 7 { speed = $1 }
            NR == 8 { p = $1 == "-" ? "" : sprintf("%.2g", $1); q = $2 == "-" ? "" : sprintf("%.2g", $2) }
            END {
                printf "| %s | %s | %s | %s | %s | %.4f | %.4f | %.3f | %.0f |\n",
                    name, loss, diff, p, q, drop, moved, load, speed
            }'
    done
    first=${seeds%%,*}
    routing_head
    for change in $(list "$changes"); do
        routing_rows "$(name_of "$change")" "$change-$first"
    done
    echo
    echo "(seed $first)"
}

{
    [ "$part" = 2 ] || part1
    [ "$part" != all ] || echo
    [ "$part" = 1 ] || part2
} >"$out/table.md"
cat "$out/table.md"
