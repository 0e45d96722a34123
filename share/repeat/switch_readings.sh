#!/bin/sh
# switch_readings.sh: which capacity had the published Switch model with reassignment? Its script
# says 1.25, the default of its layer is 1. Trains the preset switch-plus-as-run with both, each
# with several seeds, and prints the validation losses beside the published one, and how many
# assignments each part of the training moved to another expert.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: switch_readings.sh --data tinyshakespeare.txt [OPTION]...

  --out DIR          runs, table (repeat-switch-readings)
  --capacities LIST  the readings of moe.capacity_factor (1,1.25)
  --seeds LIST       of each reading (1,2,3,4,5)
  --steps N          of each run (33111: one epoch)
  --jobs N           runs at a time (1)
  --threads N        of each run (0: cores / jobs)
  --set KEY=VALUE    further keys of every run (repeatable)
  -h, --help         this text

Interrupted, the same command goes on. MOEFW names the program if it is not in PATH.'

data='' out=repeat-switch-readings capacities=1,1.25 seeds=1,2,3,4,5 steps=33111 jobs=1 threads=0 extra=''
published=1.8781 published_train=2.0108 # after the first epoch, and the mean of its steps
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data out capacities seeds steps jobs threads' "$@"
[ -n "$data" ] || usage_and_exit 2
[ -r "$data" ] || die 3 "cannot read $data"
whole --steps "$steps"
for seed in $(list "$seeds"); do
    whole --seeds "$seed"
done

begin
for seed in $(list "$seeds"); do
    for capacity in $(list "$capacities"); do
        plan "capacity$capacity-$seed" switch-plus-as-run --steps "$steps" --seed "$seed" \
            --set moe.capacity_factor="$capacity" --set train.eval_every=0
    done
done
carry_out

# moved NAME PART: reassigned assignments / tokens in the PARTth tenth of the steps
moved() {
    from=$((steps * ($2 - 1) / 10)) to=$((steps * $2 / 10))
    total "$1" train reassigned $from $to | awk -v n=$((to - from)) '{ printf "%.3f", $1 / (n * 2048) }'
}

# of_seeds CAPACITY SPLIT: the losses of its runs, one a line
of_seeds() {
    for seed in $(list "$seeds"); do
        case $2 in
        val) value "capacity$1-$seed" val task_loss ;;
        train) average "capacity$1-$seed" train task_loss 0 "$steps" ;;
        esac
    done
}

{
    echo "One epoch of $steps steps; the published losses are $published (validation) and $published_train (training)."
    echo
    echo "| capacity | seed | val loss | from published | train loss | from published | reassigned / tokens, in each tenth of the steps |"
    echo "|---|---|---|---|---|---|---|"
    for capacity in $(list "$capacities"); do
        for seed in $(list "$seeds"); do
            run=capacity$capacity-$seed curve=''
            for part in 1 2 3 4 5 6 7 8 9 10; do
                curve="$curve $(moved "$run" $part)"
            done
            echo "$(value "$run" val task_loss) $(average "$run" train task_loss 0 "$steps")" |
                awk -v c="$capacity" -v s="$seed" -v p=$published -v t=$published_train -v curve="$curve" '{
                    printf "| %s | %s | %.4f | %+.4f | %.4f | %+.4f |%s |\n", c, s, $1, $1 - p, $2, $2 - t, curve }'
        done
    done
    echo
    echo "p: whether the published loss, one run, can be one more seed of the reading (Student's t; assumes that the"
    echo "losses of seeds are normally distributed)."
    echo
    echo "| capacity | loss | mean and 95 % interval over seeds | sd | lowest | highest | published | p |"
    echo "|---|---|---|---|---|---|---|---|"
    for capacity in $(list "$capacities"); do
        for split in val train; do
            [ $split = val ] && told=$published || told=$published_train
            p=$(of_seeds "$capacity" $split | t_test "$told")
            echo "$(of_seeds "$capacity" $split | interval) $(of_seeds "$capacity" $split | sort -n | tr '\n' ' ')" |
                awk -v c="$capacity" -v l=$split -v told="$told" -v p="$p" '{
                    for (i = 3; i <= NF; i++) v += ($i - $1) ^ 2
                    name = "training"; sd = "-"
                    if (l == "val") name = "validation"
                    if (NF > 3) sd = sprintf("%.4f", sqrt(v / (NF - 3)))
                    if (p != "-") p = sprintf("%.2g", p)
                    printf "| %s | %s | %s ± %s | %s | %.4f | %.4f | %s | %s |\n", c, name, $1, $2, sd, $3, $NF, told, p
                }'
        done
    done
} >"$out/table.md"
cat "$out/table.md"
