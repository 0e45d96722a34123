#!/bin/sh
# tagat.sh: the tables of "Token-Adaptive Gated Attention Transformer" (Golwala 2025), ours beside
# the published, and the baseline under the same conditions.
#
# All validation accuracies of the paper's tables 1 and 2 are whole numbers of 872 parts, and all
# training accuracies of 4,032: they are of SST-2, two classes, 4,000 sentences in 63 batches of 64.
# Those of the baseline (table 3) are of 9,815 parts: MultiNLI, three classes. So the published gain
# compares two tasks. Here all models see the same sentences: SST-2, and SICK as the task of three
# classes. --data is a folder with sst2/train.tsv, sst2/dev.tsv (SENTENCE TAB LABEL) and, to run
# SICK too, sick/SICK_train.txt and sick/SICK_trial.txt.
#
# With --mnli, a folder with MultiNLI's own train.tsv and dev_matched.tsv, its task comes, too. Table 3
# also has seconds of an epoch and of its validation, the latency of a batch, and memory: of every
# model here they are in the last table, of this machine.
#
# The printed weight of the entropy in the balanced model, 2, makes printed losses negative (loss -
# 2 entropy); 1 fits them: tagat-balanced-entropy1.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: tagat.sh --data DIR --vocab FILE [OPTION]...

  --data DIR       holds sst2/{train,dev}.tsv and sick/SICK_{train,trial}.txt
  --vocab FILE     vocab.txt of bert-base-uncased
  --out DIR        runs, tables (repeat-tagat)
  --models LIST    tagat-balanced,tagat-balanced-entropy1,tagat-specialised,
                   tagat-balanced-as-run,tagat-specialised-as-run,vanilla,
                   vanilla-as-run (all)
  --mnli DIR       holds train.tsv and dev_matched.tsv of MultiNLI (none)
  --tasks LIST     sst2,sick,mnli (those of which there are data; SICK and MultiNLI
                   without entropy1 and the as-run models of TAGAT)
  --epochs N       (20)
  --seeds LIST     (1,2,3)
  --test-sentences FILE  held-out sentences for sst2 (the lines of train.tsv that
                         no run is trained on: all but the first 4,000)
  --test-pairs FILE  held-out pairs for sick (none: no such table)
  --jobs N         runs at a time (1)
  --threads N      of each run (0: cores / jobs)
  --set KEY=VALUE  further keys of every run (repeatable)
  -h, --help       this text

Interrupted, the same command goes on. MOEFW names the program if it is not in PATH.'

data='' mnli='' test_sentences='' test_pairs='' vocab='' out=repeat-tagat tasks='' epochs=20 seeds=1,2,3 jobs=1 threads=0 extra=''
models=tagat-balanced,tagat-balanced-entropy1,tagat-specialised,tagat-balanced-as-run,tagat-specialised-as-run,vanilla,vanilla-as-run
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data mnli vocab out models tasks epochs seeds test-sentences test-pairs jobs threads' "$@"
if [ -z "$data" ] || [ -z "$vocab" ]; then usage_and_exit 2; fi
[ -n "$tasks" ] || tasks=sst2,sick${mnli:+,mnli}
whole --epochs "$epochs"
for seed in $(list "$seeds"); do
    whole --seeds "$seed"
done
for model in $(list "$models"); do
    case $model in
    tagat-balanced | tagat-balanced-entropy1 | tagat-specialised | vanilla) ;;
    tagat-balanced-as-run | tagat-specialised-as-run | vanilla-as-run) ;;
    *) die 2 "--models: unknown '$model' (--help tells)" ;;
    esac
done

# Paths may contain blanks, words of a plan may not: so the data get links in the folder in which
# all runs start.
link() { # FILE NAME
    [ -r "$1" ] || die 3 "cannot read $1"
    ln -sf "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")" "$out/data/$2" || exit 1
}
mkdir -p "$out/data" || die 1 "cannot make $out"
link "$vocab" vocab.txt
for task in $(list "$tasks"); do
    case $task in
    sst2)
        link "$data/sst2/train.tsv" sst2-train.tsv
        link "$data/sst2/dev.tsv" sst2-dev.tsv
        rm -f "$out/data/sst2-test.tsv"
        if [ -n "$test_sentences" ]; then
            link "$test_sentences" sst2-test.tsv
        else
            sed '1,4000d' "$data/sst2/train.tsv" >"$out/data/sst2-test.tsv" || exit 1
        fi
        ;;
    sick)
        link "$data/sick/SICK_train.txt" sick-train.tsv
        link "$data/sick/SICK_trial.txt" sick-dev.tsv
        rm -f "$out/data/sick-test.tsv"
        [ -z "$test_pairs" ] || link "$test_pairs" sick-test.tsv
        ;;
    mnli)
        [ -n "$mnli" ] || die 2 "--tasks: mnli wants --mnli DIR (--help tells)"
        link "$mnli/train.tsv" mnli-train.tsv
        link "$mnli/dev_matched.tsv" mnli-dev.tsv
        ;;
    *) die 2 "--tasks: '$task' is none of sst2, sick, mnli" ;;
    esac
done
case ${MOEFW-} in
'' | /*) ;;
*) MOEFW=$(cd "$(dirname "$MOEFW")" && pwd)/$(basename "$MOEFW") ;;
esac
cd "$out" || exit 1
out=. data=

has() { # TASK MODEL: whether it is among the runs
    case $1-$2 in
    sick-*-as-run | sick-*-entropy1 | mnli-tagat-*-as-run | mnli-*-entropy1) return 1 ;;
    *) return 0 ;;
    esac
}

words_of() { # MODEL: preset and options
    case $1 in
    *-entropy1) echo "${1%-entropy1}" --set regularizer.entropy.weight=1 ;;
    *) echo "$1" ;;
    esac
}

begin
for seed in $(list "$seeds"); do
    for task in $(list "$tasks"); do
        limit=4000
        [ "$task" = sst2 ] || limit=0
        for model in $(list "$models"); do
            has "$task" "$model" || continue
            # shellcheck disable=SC2046 # words are words
            plan "$task-$model-$seed" $(words_of "$model") --seed "$seed" --set "data.path=data/$task-train.tsv" \
                --set "data.val_path=data/$task-dev.tsv" --set data.tokenizer=data/vocab.txt \
                --set data.limit=$limit --set train.epochs="$epochs"
        done
    done
done
carry_out

# ---- tables ----

# figures RUN: of its epochs
#   best, epoch of it, mean, sd (population), last, macro F1 of the last, entropy first and last,
#   KL to even first and last, Pearson of skew and accuracy, train accuracy and loss of the last
figures() {
    awk '
        function get(key,    at) {
            at = index($0, "\"" key "\":")
            return at ? substr($0, at + length(key) + 3) + 0 : "-"
        }
        /"split":"val"/ {
            n++
            a[n] = get("accuracy"); h[n] = get("gate_entropy"); k[n] = get("balance_kl")
            l[n] = get("balance_l2"); f = get("macro_f1")
            ta = get("train_accuracy"); tl = get("train_loss")
            sum += a[n]
            if (a[n] > best) { best = a[n]; at_epoch = n }
        }
        END {
            for (i = 1; i <= n; i++) {
                ss += (a[i] - sum / n) ^ 2; lsum += l[i]
            }
            for (i = 1; i <= n; i++) {
                c += (a[i] - sum / n) * (l[i] - lsum / n); ll += (l[i] - lsum / n) ^ 2
            }
            r = ss * ll > 0 ? c / sqrt(ss * ll) : "-"
            print best, at_epoch, sum / n, sqrt(ss / n), a[n], f, h[1], h[n], k[1], k[n], r, ta, tl
        }' "$out/runs/$1/metrics.jsonl"
}

# column TASK MODEL N: the N-th figure of each seed, one a line
column() {
    for s in $(list "$seeds"); do
        figures "$1-$2-$s" | awk -v n="$3" '{ print $n }'
    done
}

# mean TASK MODEL N [FORMAT]: over seeds; - where there is none
mean() {
    column "$1" "$2" "$3" | awk -v f="${4-%.4f}" '
        $1 != "-" { sum += $1; n++ }
        END { if (n) printf f "\n", sum / n; else print "-" }'
}

# with_interval TASK MODEL N: "mean ± half-width"
with_interval() {
    column "$1" "$2" "$3" | interval | awk '{ print $2 == "-" ? $1 : $1 " ± " $2 }'
}

# published MODEL: best, mean ± sd, last, entropy, KL, Pearson, train accuracy and loss
published() {
    case $1 in
    tagat-balanced*) echo ".6720|.6333 ± .0482|.6468|.6742 → .4272|.1713 → .00048|-.92|.9338|.6294" ;;
    tagat-specialised*) echo ".6686|.6258 ± .0545|.6594|.6424 → .2019|.2395 → .0313|-.84|.8874|.5430" ;;
    vanilla*) echo ".5420 (MultiNLI)|.5185 ± .0238|.5374||||.5881|.8766" ;;
    esac
}

row() { # TASK MODEL
    p=$(published "$2")
    case $1-$2 in sst2-* | mnli-vanilla*) ;; *) p='|||||||' ;; esac
    IFS='|' read -r p_best p_mean p_last p_h p_kl p_r p_ta p_tl <<ROW
$p
ROW
    h="$(mean "$1" "$2" 7) → $(mean "$1" "$2" 8)" kl="$(mean "$1" "$2" 9) → $(mean "$1" "$2" 10 %.5f)"
    case $2 in vanilla*) h='' kl='' ;; esac
    printf '| %s | %s | %s | %s | %s | %s ± %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' \
        "$2" "$p_best" "$(with_interval "$1" "$2" 1)" "$(mean "$1" "$2" 2 %.1f)" "$p_mean" \
        "$(mean "$1" "$2" 3)" "$(mean "$1" "$2" 4)" "$p_last" "$(with_interval "$1" "$2" 5)" \
        "$(mean "$1" "$2" 6)" "$p_h" "$h" "$p_kl" "$kl" "$p_r" "$(mean "$1" "$2" 11 %.2f)" "$p_ta" \
        "$(mean "$1" "$2" 12)" "$p_tl" "$(mean "$1" "$2" 13)"
}

task_table() { # TASK TITLE
    echo "$2"
    echo
    echo "| model | published best | ours best | at epoch | published mean of epochs ± sd | ours | published last | ours last | ours macro F1 | published entropy, first → last | ours | published KL to even | ours | published r(skew, accuracy) | ours | published train accuracy | ours | published train loss | ours |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for model in $(list "$models"); do
        has "$1" "$model" && row "$1" "$model"
    done
    echo
}

# at_epoch TASK MODEL KEY N FORMAT: mean over seeds
at_epoch() {
    for s in $(list "$seeds"); do
        awk -v key="\"$3\":" -v n="$4" '/"split":"val"/ && ++i == n {
            at = index($0, key); if (at) print substr($0, at + length(key)) + 0 }' \
            "$out/runs/$1-$2-$s/metrics.jsonl"
    done | awk -v f="$5" '{ sum += $1; n++ } END { if (n) printf f "\n", sum / n; else print "-" }'
}

# curves WHAT KEY FORMAT BALANCED SPECIALISED [VANILLA]: the numbers of tables 1 and 2 for six
# epochs, in each of the last three; a model without them is skipped
curves() {
    echo "$1 by epoch on SST-2: published, ours (mean over seeds)"
    echo
    echo "| model | 1 | | 5 | | 10 | | 15 | | 19 | | 20 | |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for m in $(list "$models"); do
        case $m in
        tagat-balanced*) told=$4 ;;
        tagat-specialised*) told=$5 ;;
        *) told=${6-} ;;
        esac
        [ -n "$told" ] || continue
        line="| $m |"
        for e in 1 5 10 15 19 20; do
            line="$line ${told%% *} | $(at_epoch sst2 "$m" "$2" $e "$3") |"
            told=${told#* }
        done
        echo "$line"
    done
    echo
}

# Published KL to even: from the mean gates that these tables print.
all_curves() {
    curves "Validation accuracy" accuracy %.4f ".5115 .6422 .6663 .6548 .6720 .6468" \
        ".5092 .6204 .6456 .6537 .6606 .6594" "- - - - - -"
    curves "Entropy of a token's gates" gate_entropy %.4f ".6742 .6594 .6052 .5170 .4433 .4272" \
        ".6424 .6206 .4330 .2834 .2144 .2019"
    curves "KL of the mean gates to even" balance_kl %.5f \
        ".17128 .00244 .00156 .00078 .00060 .00048" ".23954 .03755 .03136 .03475 .03065 .03126"
}

# The gain of a model over the baseline on the same data, seed by seed.
gain() { # TASK MODEL BASELINE N WHAT
    paired=$out/runs/.paired
    column "$1" "$2" "$4" >"$paired.1"
    column "$1" "$3" "$4" >"$paired.2"
    paste "$paired.1" "$paired.2" | awk '{ print $1 - $2 }' | interval |
        awk -v t="$1" -v m="$2" -v b="$3" -v w="$5" '{
            printf "| %s | %s − %s | %s | %+.4f%s |\n", t, m, b, w, $1, $2 == "-" ? "" : " ± " $2 }'
    rm -f "$paired.1" "$paired.2"
}

gains() {
    echo "The gain over the baseline on the same sentences (published: +.13, of two tasks)"
    echo
    echo "| task | models | of | difference, 95 % interval |"
    echo "|---|---|---|---|"
    for t in $(list "$tasks"); do
        for m in $(list "$models"); do
            case $m in
            vanilla*) continue ;;
            *-as-run) b=vanilla-as-run ;;
            *) b=vanilla ;;
            esac
            has "$t" "$m" || continue
            case ,$models, in *",$b,"*) ;; *) continue ;; esac
            gain "$t" "$m" "$b" 1 "best epoch"
            gain "$t" "$m" "$b" 5 "last epoch"
        done
    done
    echo
    echo "The best of $epochs epochs is chosen on the sentences that it is measured on, as in the paper;"
    echo "the last epoch is not chosen."
}

# ---- time and memory ----

# seconds RUN: medians over its epochs of the seconds of training and of validation, whose speed in
# tokens gives its own
seconds() {
    awk '
        function get(key,    at) { at = index($0, "\"" key "\":"); return substr($0, at + length(key) + 3) + 0 }
        /"split":"val"/ {
            v = get("tokens") / get("tokens_per_s")
            print "train", get("wall_s") - before - v
            print "val", v
            before = get("wall_s")
        }' "$out/runs/$1/metrics.jsonl" | sort -k1,1 -k2,2n | awk '
        { v[$1, ++n[$1]] = $2 }
        END {
            for (i = 0; i < 2; i++) {
                k = i ? "val" : "train"
                printf "%.2f ", (v[k, int((n[k] + 1) / 2)] + v[k, int(n[k] / 2) + 1]) / 2
            }
        }'
}

# latency RUN: of a batch of 32 padded sentences, the median in ms; measured once
latency() {
    if [ ! -s "$out/runs/$1.infer" ]; then
        "$MOEFW" bench infer "$out/runs/$1" --batch 32 --repetitions 20 --json -t "$threads" 2>>"$out/runs/$1.log" |
            sed 's/.*"ms":\([0-9.]*\).*/\1/' >"$out/runs/$1.infer.new"
        [ -s "$out/runs/$1.infer.new" ] || die 1 "$1: no latency: see $out/runs/$1.log"
        mv "$out/runs/$1.infer.new" "$out/runs/$1.infer"
    fi
    awk '{ printf "%.1f", $1 }' "$out/runs/$1.infer"
}

time_table() {
    first=${seeds%%,*}
    echo "Time and memory, seed $first; published: of the vanilla model on MultiNLI, 392,702 and 9,815 pairs, on a T4"
    echo
    echo "| task | model | tokens an epoch | s an epoch | of its validation | ms of a batch of 32 | MiB of the process, at most |"
    echo "|---|---|---|---|---|---|---|"
    echo "| MultiNLI, published | vanilla |  | 137.4 (136.6 to 154.8) | 1.06 (1.06 to 1.31) | 1.8 | 82 MB of the GPU |"
    for t in $(list "$tasks"); do
        for m in $(list "$models"); do
            has "$t" "$m" || continue
            name=$t-$m-$first
            # shellcheck disable=SC2046 # two numbers
            set -- $(seconds "$name")
            echo "| $t | $m | $(value "$name" train tokens | awk -v e="$epochs" '{ printf "%d", $1 / e }') | $1 | $2 | $(latency "$name") | $(
                sed -n '$s/.*"peak_rss_mib":\([0-9]*\).*/\1/p' "$out/runs/$name/memory.jsonl") |"
        done
    done
}

# ---- held-out sentences ----

# held_out TASK RUN: accuracy of the last epoch's weights on data/TASK-test.tsv, measured once
held_out() {
    told=$out/runs/$2.held-out-$(sha256sum <"data/$1-test.tsv" | cut -c1-12) # other data, other file
    if [ ! -s "$told" ]; then
        # shellcheck disable=SC2154 # begin of lib.sh sets threads
        "$MOEFW" eval "$out/runs/$2" --data "data/$1-test.tsv" --json -t "$threads" >"$told.new" 2>>"$out/runs/$2.log" ||
            die 1 "$2: cannot evaluate it on the held-out sentences: see $out/runs/$2.log"
        sed -n 's/.*"accuracy": *\([0-9.e-]*\).*/\1/p' "$told.new" | head -n 1 >"$told"
        rm -f "$told.new"
    fi
    cat "$told"
}

held_out_all() { # TASK MODEL: of each seed, one a line
    for s in $(list "$seeds"); do
        held_out "$1" "$1-$2-$s"
    done
}

held_out_table() { # TASK LIMIT
    echo "Held-out data of $1: no run was trained on them, nothing was chosen by them; the last epoch's weights"
    echo
    "$here/baselines.sh" --train "data/$1-train.tsv" --test "data/$1-test.tsv" --train-limit "$2" >baselines.new || exit 1
    sed -n 's/^\([0-9a-f]\{64\}\)  .*-test.*/sha256 \1/p; s/^.* to train on, \([0-9]* to test\).*/\1/p' baselines.new | tr '\n' ' '
    echo
    echo
    echo "| model | accuracy | difference from vanilla |"
    echo "|---|---|---|"
    sed -n 's/^the most frequent class *\(.*\)/| the most frequent class | \1 | |/p
        s/^linear model of words *\(.*\)/| linear model of words (baselines.sh) | \1 | |/p' baselines.new
    rm -f baselines.new
    for m in $(list "$models"); do
        has "$1" "$m" || continue
        held_out_all "$1" "$m" >held-out.1 || exit 1
        gain=''
        case $m,$models, in
        vanilla,* | vanilla-as-run,*) ;;
        *,vanilla,*)
            held_out_all "$1" vanilla >held-out.2 || exit 1
            gain=$(paste held-out.1 held-out.2 | awk '{ print $1 - $2 }' | interval |
                awk '{ printf "%+.4f%s", $1, $2 == "-" ? "" : " ± " $2 }')
            ;;
        esac
        echo "| $m | $(interval <held-out.1 | awk '{ print $2 == "-" ? $1 : $1 " ± " $2 }') | $gain |"
        rm -f held-out.1 held-out.2
    done
    echo
}

{
    echo "# Token-Adaptive Gated Attention Transformer: $epochs epochs, seeds $seeds"
    echo
    for task in $(list "$tasks"); do
        case $task in
        sst2) task_table sst2 "SST-2, 4,000 training and 872 validation sentences, 2 classes" && all_curves ;;
        sick) task_table sick "SICK, 4,500 training and 500 validation pairs, 3 classes" ;;
        mnli) task_table mnli "MultiNLI as found in --mnli, 3 classes" ;;
        esac
    done
    gains
    echo
    time_table
    for task in $(list "$tasks"); do
        [ -s "data/$task-test.tsv" ] || continue
        echo
        case $task in
        sst2) held_out_table sst2 4000 ;;
        *) held_out_table "$task" 0 ;;
        esac
    done
} >tables.md.new || exit 1
mv tables.md.new tables.md
cat tables.md
