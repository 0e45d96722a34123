#!/bin/sh
# sentinel.sh: measures what "Adaptive Transformer with Sentinel Gates and ANN-based Dynamic
# Controller" claims about pruned attention heads: quality, speed, and regrowth.
#
#   quality   two models continue one trained model for equally many steps: one under the controller,
#             which prunes, one without it; perplexity for each head and active parameter; how much
#             their texts repeat, and how likely the unpruned model finds them
#   measures  perplexity of the unpruned model right after 10 to 70 % of its heads were removed, by each
#             measure that can choose them: the curve of quality against pruned heads, also as a
#             chart, pruning.svg
#   speed     tokens/s with 0, 30, 50 and 70 % of the heads pruned, in training and in generation;
#             these runs come one at a time
#   regrowth  the pruned model continues with the controller that brings heads back when the
#             validation loss stalls
#
# With --model only the measures, of a pretrained model: gates of 1 and no skips leave its
# predictions as they are, then heads are removed.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: sentinel.sh --data tinyshakespeare.txt [OPTION]...

  --out DIR        runs, tables (repeat-sentinel)
  --model FOLDER   a pretrained model in Hugging Face form: only the measures, without training
  --steps N        of the first training (2000)
  --more N         of each that goes on (2000)
  --seed N         (1)
  --jobs N         runs at a time (1)
  --threads N      of each run (0: cores / jobs)
  --set KEY=VALUE  further keys of every run (repeatable)
  -h, --help       this text

Interrupted, the same command goes on. MOEFW names the program if it is not in PATH.'

data='' model='' out=repeat-sentinel steps=2000 more=2000 seed=1 jobs=1 threads=0 extra=''
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data model out steps more seed jobs threads' "$@"
[ -n "$data" ] || usage_and_exit 2
[ -r "$data" ] || die 3 "cannot read $data"
whole --steps "$steps"
whole --more "$more"
whole --seed "$seed"

shares='0 30 50 70'
cuts='10 30 50 70'
measures='gate entropy gradient importance magnitude random'
without='--set controller.sentinel.plugin=none --set controller.plateau.plugin=none --set controller.head_lr.plugin=none'
# To continue: half of the first learning rate; the controller has pruned by the middle.
on="--steps $more --set train.lr=0.001 --set train.warmup=10"
prunes="--set controller.sentinel.warmup=$((more / 20)) --set controller.sentinel.every=$((more / 100 + 1)) --set controller.sentinel.rate=3 --set controller.plateau.plugin=none"
grows="--set controller.sentinel.plugin=none --set controller.plateau.patience=2 --set controller.plateau.min_change=0.02 --set controller.plateau.ramp_steps=$((more / 20 + 1))"

# stage: the planned runs, and no others
stage() {
    carry_out
    runs_planned=''
}

begin
curves() {
    echo "Measures: perplexity of the unpruned model ($(value unpruned val ppl | awk '{ printf "%.3f", $1 }')) after that share of its heads was removed"
    echo
    echo "| by |$(for share in $cuts; do printf ' %s %% |' "$share"; done)"
    echo "|---|$(for share in $cuts; do printf '%s' '---|'; done)"
    for by in $measures; do
        line="| $by |"
        for share in $cuts; do
            line="$line $(value "cut-$by-$share" val ppl | awk '{ printf "%.3f", $1 }') |"
        done
        echo "$line"
    done
}

# chart: an SVG of the table of curves, on standard input: perplexity, on a logarithmic axis, against
# the share of heads that were removed
chart() {
    awk -F '|' -v unpruned="$1" '
        /^\| by/ { for (i = 3; i < NF; i++) share[i] = $i + 0; n = NF; next }
        /^\| [a-z]/ {
            name = $2; gsub(/ /, "", name); order[++m] = name
            for (i = 3; i < n; i++) { v[name, i] = $i + 0; if ($i + 0 > most) most = $i + 0 }
        }
        function y(p) { return 290 - 240 * log(p / unpruned) / log(most / unpruned) }
        function x(s) { return 70 + 6.5 * s }
        END {
            if (most < 1.01 * unpruned) most = 1.01 * unpruned
            split("#c0392b #2874a6 #1e8449 #b9770e #6c3483 #555555", ink, " ")
            print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 350\" font-family=\"sans-serif\" font-size=\"13\">"
            print "<rect width=\"720\" height=\"350\" fill=\"#fff\"/>"
            print "<text x=\"70\" y=\"24\" font-weight=\"bold\">Perplexity of a model without a share of its heads, by the measure that chose them</text>"
            for (p = unpruned; p < 1.001 * most; p *= most > 20 * unpruned ? 4 : most > 3 * unpruned ? 2 : 1.25) {
                printf "<path d=\"M70 %.1fh470\" stroke=\"#ddd\"/>", y(p)
                printf "<text x=\"62\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", y(p) + 4, p
            }
            for (s = 0; s <= 70; s += 10)
                printf "<text x=\"%.0f\" y=\"310\" text-anchor=\"middle\">%d</text>\n", x(s), s
            print "<text x=\"298\" y=\"332\" text-anchor=\"middle\">% of the heads removed</text>"
            for (k = 1; k <= m; k++) {
                printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"%.1f,%.1f", ink[k], x(0), y(unpruned)
                for (i = 3; i < n; i++) printf " %.1f,%.1f", x(share[i]), y(v[order[k], i])
                printf "\"/>\n<path d=\"M560 %dh24\" stroke=\"%s\" stroke-width=\"2\"/>", 60 + 20 * k, ink[k]
                printf "<text x=\"590\" y=\"%d\">%s</text>\n", 64 + 20 * k, order[k]
            }
            print "</svg>"
        }'
}

# curves_and_chart: the table, and $out/pruning.svg
curves_and_chart() {
    curves >"$out/curves.md"
    chart "$(value unpruned val ppl)" <"$out/curves.md" >"$out/pruning.svg"
    cat "$out/curves.md"
}

if [ -n "$model" ]; then
    [ -d "$model" ] || die 3 "cannot read $model"
    [ -d "$out/base" ] || "$MOEFW" import "$model" -o "$out/base" -q >&2 || exit
    measures='entropy gradient importance magnitude random' # gates of 1 tell nothing
    gates="--steps 1 --seed $seed --set train.from=$out/base --set train.lr=0 --set report.enabled=no
        --set adapter.gates.plugin=head_gates --set adapter.gates.form=raw --set adapter.gates.init=1"
    # shellcheck disable=SC2086 # words are words
    plan unpruned "$out/base/config.ini" $gates
    for by in $measures; do
        for share in $cuts; do
            # shellcheck disable=SC2086 # words are words
            plan "cut-$by-$share" "$out/base/config.ini" $gates --set controller.cut.plugin=prune \
                --set "controller.cut.by=$by" --set controller.cut.at=1 --set "controller.cut.share=0.$share"
        done
    done
    stage
    curves_and_chart
    exit
fi
plan first sentinel "$without" --steps "$steps" --seed "$seed"
stage
plan unpruned sentinel "$without" "$on" --seed "$seed" --set "train.from=$out/runs/first"
plan pruned sentinel "$prunes" "$on" --seed "$seed" --set "train.from=$out/runs/first"
stage
plan regrown sentinel "$grows" "$on" --seed "$seed" --set "train.from=$out/runs/pruned" \
    --set "train.eval_every=$((more / 12 + 1))"
stage
for by in $measures; do # one step that changes no weight
    for share in $cuts; do
        plan "cut-$by-$share" sentinel "$without" --steps 1 --seed "$seed" --set "train.from=$out/runs/unpruned" \
            --set train.lr=0 --set controller.cut.plugin=prune --set "controller.cut.by=$by" --set controller.cut.at=1 \
            --set "controller.cut.share=0.$share" --set report.enabled=no
    done
done
stage
jobs=1
for share in $shares; do
    plan "speed-$share" sentinel "$without" --steps 80 --seed "$seed" \
        --set controller.cut.plugin=prune --set controller.cut.by=spread --set controller.cut.at=1 \
        --set "controller.cut.share=0.$share" --set train.eval_every=0 --set report.enabled=no
done
stage

# generating SHARE: tokens/s, the best of three
generating() {
    file=$out/runs/speed-$1.generate
    if [ ! -s "$file" ]; then
        for _ in 1 2 3; do
            "$MOEFW" generate "$out/runs/speed-$1" -t "$threads" -f "$(prompt)" -n 400 2>&1 >/dev/null |
                sed -n 's/.* tokens, \([0-9.]*\) tokens\/s.*/\1/p'
        done | sort -n | tail -n 1 >"$file"
    fi
    cat "$file"
}

published() {
    case $1 in
    0) echo 18.15 15.65 ;;
    30) echo 16.79 17.51 ;;
    50) echo 22.50 22.17 ;;
    70) echo 20.21 20.57 ;;
    esac
}

heads_of() { # RUN -> "active total"
    echo "$(value "$1" val active) $(value "$1" val total)"
}

quality() {
    echo "Quality: validation loss, nats/token"
    echo
    echo "| model | steps | heads pruned | val loss | to the unpruned one | published | perplexity | / head | parameters in use | parameter efficiency |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    base=$(value unpruned val task_loss)
    for run in first unpruned pruned regrown; do
        case $run in
        first) n=$steps told= ;;
        regrown) n=$((steps + 2 * more)) told= ;;
        pruned) n=$((steps + more)) told="30 to 40 % fewer heads, perplexity equal or better" ;;
        *) n=$((steps + more)) told= ;;
        esac
        # shellcheck disable=SC2046 # words are words
        set -- $(heads_of $run) "$(value $run val task_loss)"
        awk -v run=$run -v n="$n" -v active="$1" -v total="$2" -v loss="$3" -v base="$base" \
            -v told="$told" -v ppl="$(value $run val ppl)" -v a_head="$(value $run val ppl_per_head)" \
            -v used="$(value $run val params_active)" -v worth="$(value $run val parameter_efficiency)" 'BEGIN {
                printf "| %s | %d | %.1f %% | %.4f | %+.2f %% | %s | %.3f | %.4f | %d | %.4f |\n", run, n,
                    100 * (total - active) / total, loss, 100 * (loss / base - 1), told, ppl, a_head, used, worth }'
    done
}

# prompt: characters that the model's vocabulary has
prompt() {
    [ -s "$out/prompt" ] || sed -n '/[[:alpha:]]/{p;q;}' "$data" | cut -c 1-40 >"$out/prompt"
    echo "$out/prompt"
}

# write_texts RUN: into RUN.texts, completely or not at all
write_texts() {
    file=$out/runs/$1.texts
    [ ! -s "$file" ] || return 0
    "$MOEFW" generate "$out/runs/$1" -q -t "$threads" -f "$(prompt)" --samples 20 -n 200 -s "$seed" \
        --quality --baseline "$out/runs/unpruned" --json >"$file.new" || die 1 "$1 writes no texts"
    mv "$file.new" "$file" || die 1 "cannot make $file"
}

# written RUN KEY: a number about its texts
written() {
    sed 's/.*"samples":.*\],"quality":{\([^}]*\)},"baseline".*/\1/' "$out/runs/$1.texts" |
        tr ',' '\n' | sed -n "s/^\"$2\"://p"
}

texts() {
    echo "Texts: 20 of 200 tokens of each model; the log-likelihood is that of the unpruned one"
    echo
    echo "| model | rep-2 | rep-4 | diversity | distinct-1 | distinct-2 | again | coherence, nats/token |"
    echo "|---|---|---|---|---|---|---|---|"
    for run in first unpruned pruned regrown; do
        write_texts $run # not in a pipe, where a failure would not end the script
        line="| $run |"
        for key in rep_2 rep_4 diversity distinct_1 distinct_2 again other_coherence; do
            line="$line $(written $run $key | awk '{ printf "%.4f", $1 }') |"
        done
        echo "$line"
    done
}

speed() {
    echo "Speed: tokens/s, $threads thread(s); published: GPT-2, first and second version of the code"
    echo
    echo "| heads pruned | training | ratio | generating | ratio | published |"
    echo "|---|---|---|---|---|---|"
    train0=$(average speed-0 train tokens_per_s 10) generate0=$(generating 0)
    for share in $shares; do
        # shellcheck disable=SC2046 # words are words
        set -- "$(average "speed-$share" train tokens_per_s 10)" "$(generating "$share")" $(published "$share")
        echo "$share $1 $train0 $2 $generate0 $3 $4" |
            awk '{ printf "| %d %% | %.0f | %.2f | %.0f | %.2f | %s, %s |\n", $1, $2, $2 / $3, $4, $4 / $5, $6, $7 }'
    done
}

regrowth() {
    echo "Regrowth: heads that came back, from the changes in regrown/metrics.jsonl"
    echo
    echo "| step | head | reason |"
    echo "|---|---|---|"
    tr '{' '\n' <"$out/runs/regrown/metrics.jsonl" |
        sed -n 's/^"step":\([0-9]*\),"option":"layers\.\([0-9]*\)\.attention\.active\.\([0-9]*\)","from":0,"to":1,.*"reason":"\([^"]*\)".*/| \1 | layer \2, head \3 | \4 |/p'
}

{
    quality
    echo
    texts
    echo
    curves_and_chart
    echo
    speed
    echo
    regrowth
} >"$out/table.md.new" && mv "$out/table.md.new" "$out/table.md"
cat "$out/table.md"
