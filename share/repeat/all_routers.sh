#!/bin/sh
# all_routers.sh: every router of moefw in one small decoder, on characters of Tiny Shakespeare and
# on BPE tokens of WikiText-2: the same steps, batches and seeds for all. Loss with intervals,
# paired differences from the linear router with p after Holm's correction, bits per byte, load,
# specialization, and cost. ROUTERS.md has its result.
#
# oracle is missing: these texts have no labels to follow. expert_choice, seq_topk and soft read later
# tokens, so their loss is not that of a decoder; they run with moe.force_causal = yes to show this.
# shellcheck disable=SC2034 # lib.sh reads usage, jobs, threads
set -u
usage='usage: all_routers.sh --data FOLDER [OPTION]...

  --data FOLDER    has tinyshakespeare.txt, wikitext-2/test.txt (to train on) and
                   wikitext-2/valid.txt
  --out DIR        runs, tables (repeat-all-routers)
  --part PART      rate, char, bpe, traces, cost, table, figure or all (all but rate)
  --seeds N        (8)
  --steps N        (600)
  --rounds N       of the measurement of time, each with all routers (5)
  --jobs N         runs at a time (1)
  --threads N      of each run (0: cores / jobs)
  -h, --help       this text

Interrupted, the same command goes on. MOEFW names the program if it is not in PATH.'

data='' out=repeat-all-routers part=all seeds=8 steps=600 rounds=5 jobs=1 threads=0 extra=''
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

options 'data out part seeds steps rounds jobs threads' "$@"
[ -n "$data" ] || usage_and_exit 2
for file in tinyshakespeare.txt wikitext-2/test.txt wikitext-2/valid.txt; do
    [ -r "$data/$file" ] || die 3 "cannot read $data/$file"
done
case $part in rate | char | bpe | traces | cost | table | figure | all) ;; *) die 2 "--part: unknown '$part' (--help tells)" ;; esac
whole --seeds "$seeds"
whole --steps "$steps"
whole --rounds "$rounds"

# hash has two experts a token, as the others have; sigmoid_bias also as in DeepSeek-V3, without a
# balance loss and with a bias that a controller moves; linear also with quantile balancing alone.
alone=regularizer.balance.weight=0
causal=moe.force_causal=yes
routers=linear,attention,cosine,densemix,hybrid,hyper,lapsum,mlp,product_keys,residual,two_level
routers=$routers,gumbel,noisy_topk,sparsemixer,base,kmeans,quantile,sigmoid_bias,sinkhorn,tia_r
routers=$routers,sigmoid_bias:controller.bias.plugin=expert_bias+$alone
routers=$routers,linear:controller.bias.plugin=quantile_bias+$alone
routers=$routers,dselect_k,dynmoe,relu,seq_topk:$causal,threshold,top_p,expert_choice:$causal,soft:$causal
routers=$routers,hadamard,mlp_hadamard,self_supervised,hash:hashes=2,random
rates=linear:train.lr=0.001,linear:train.lr=0.002,linear:train.lr=0.004,linear:train.lr=0.008,linear:train.lr=0.016
model=$here/all_routers.ini

wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }

# compare TEXT NAME WORDS...: into $out/runs/TEXT-NAME, or goes on there
compare() {
    text=$1
    to=$out/runs/$1$2
    shift 2
    if [ "$text" = char ]; then
        set -- "$@" --data "$data/tinyshakespeare.txt"
    else
        [ -s "$out/bpe.json" ] ||
            "$MOEFW" tokenize train bpe_bytes "$data/wikitext-2/test.txt" --vocab-size=1024 -o "$out/bpe.json" || exit
        set -- "$@" --set data.tokenizer="$out/bpe.json" --data "$data/wikitext-2/test.txt" \
            --val-file="$data/wikitext-2/valid.txt"
    fi
    # shellcheck disable=SC2086 # words are words
    "$MOEFW" compare "$model" "$@" --steps "$steps" -j "$jobs" -t $((threads * jobs)) -q -o "$to" $extra \
        >"$to.txt" 2>>"$out/log" || die 1 "moefw compare failed; $out/log tells"
}

# rows TEXT: of its comparison, a line for each router, best first:
# router|mean|half|diff|lo|hi|p|p_holm|verdict|params|active|of routers|load_cv|n|bits|half|folders
rows() {
    awk -v q="$quantiles" '
        BEGIN { split(q, t, " ") }
        { text = text $0 }
        function raw(key,    at) {
            at = index(row, "\"" key "\":")
            return at ? substr(row, at + length(key) + 3) : ""
        }
        function num(key,    v) {
            v = raw(key)
            return v ~ /^(null)?$/ || v ~ /^null/ ? "-" : v + 0
        }
        function pair(key, i,    v, p) {
            v = raw(key)
            if (v !~ /^\[/) return "-"
            split(substr(v, 2), p, /[],]/)
            return p[i] + 0
        }
        END {
            text = substr(text, index(text, "\"rows\":["))
            n = split(text, part, /\{"router":"/)
            for (i = 2; i <= n; i++) {
                row = part[i]
                if (!index(row, "\"params\":")) continue
                name = substr(row, 1, index(row, "\"") - 1)
                runs = substr(row, index(row, "\"runs\":["))
                folders = ""; m = sum = squares = 0
                k = split(runs, run, /\{"seed":/)
                for (j = 2; j <= k; j++) {
                    if (!match(run[j], /"bits_per_byte":[0-9.e+-]+/)) continue
                    b = substr(run[j], RSTART + 16, RLENGTH - 16) + 0
                    sum += b; squares += b * b; m++
                    match(run[j], /"dir":"[^"]*"/)
                    folders = folders " " substr(run[j], RSTART + 7, RLENGTH - 8)
                }
                verdict = raw("verdict"); sub(/^"/, "", verdict); sub(/".*/, "", verdict)
                mean = num("mean"); if (mean == "-") continue
                bits = m ? sum / m : 0
                half = m > 1 ? t[m - 1] * sqrt((squares / m - bits * bits) * m / (m - 1) / m) : 0
                printf "%s|%.6f|%.6f|%s|%s|%s|%s|%s|%s|%s|%s|%s|%s|%d|%.5f|%.5f|%s\n", name, mean,
                    pair("ci95", 2) - mean, num("diff"), pair("diff_ci95", 1), pair("diff_ci95", 2), num("p"),
                    num("p_holm"), verdict, num("params"), num("params_active"), num("params_router"),
                    num("load_cv"), m, bits, half, folders
            }
        }' "$out/runs/$1/comparison.json" | sort -t'|' -k2,2n
}
quantiles='12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 2.145 2.131'

# tensor FILE NAME: its 32-bit whole numbers, one a line
tensor() {
    size=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    bounds=$(dd if="$1" bs=1 skip=8 count="$size" 2>/dev/null | awk -v name="\"$2\":" '
        index($0, name) { v = substr($0, index($0, name)); match(v, /"data_offsets":\[[0-9]+,[0-9]+/)
            split(substr(v, RSTART + 16, RLENGTH - 16), b, ","); print b[1], b[2] - b[1] }')
    [ -n "$bounds" ] || return 1
    # shellcheck disable=SC2086 # two numbers
    set -- "$1" $bounds
    od -An -v -td4 -j $((8 + size + $2)) -N "$3" "$1" | tr -s ' ' '\n' | grep .
}

# share TRACE LAYER: I(expert; token) / H(expert) over the assignments of a layer, and the same for
# positions; minus what tokens and positions drawn at random give, since a sample of a table with
# many cells looks dependent
share() {
    seq=$(dd if="$1" bs=1 skip=8 count=2000 2>/dev/null | sed 's/.*"seq":"\([0-9]*\)".*/\1/')
    {
        tensor "$1" token | sed 's/^/t /'
        tensor "$1" "layers.$2.token" | sed 's/^/a /'
        tensor "$1" "layers.$2.chosen" | sed 's/^/c /'
    } | awk -v seq="$seq" '
        function entropy(count, total,    k, h) {
            for (k in count) if (count[k] > 0) h -= count[k] / total * log(count[k] / total)
            return h
        }
        $1 == "t" { token[T++] = $2; next }
        $1 == "a" { at[A++] = $2; next }
        { chosen[C++] = $2 }
        END {
            draw = 1
            k = A ? 1 : C / T
            for (i = 0; i < C; i++) {
                e = chosen[i]
                p = A ? at[i] : int(i / k)
                if (e < 0 || p < 0) continue
                n++; E[e]++
                x[token[p]]++; xe[token[p], e]++; s[p % seq]++; se[p % seq, e]++
                draw = draw * 16807 % 2147483647
                p = int(draw / 2147483647 * T)
                y[token[p]]++; ye[token[p], e]++; z[p % seq]++; ze[p % seq, e]++
            }
            h = entropy(E, n)
            if (h == 0) { print 0, 0; exit }
            of_token = entropy(x, n) - entropy(xe, n) - entropy(y, n) + entropy(ye, n)
            of_place = entropy(s, n) - entropy(se, n) - entropy(z, n) + entropy(ze, n)
            printf "%.5f %.5f\n", of_token / h, of_place / h
        }'
}

# traces TEXT: RUN/share.txt with a line for each layer
traces() {
    for folder in $(rows "$1" | cut -d'|' -f17); do
        run=$out/runs/$1/$folder
        [ -s "$run/share.txt" ] && continue
        "$MOEFW" trace record "$run" --force --batches=16 -t "$threads" -q -o "$run/trace.safetensors" >/dev/null 2>>"$out/log" ||
            die 1 "moefw trace failed; $out/log tells"
        for layer in 0 1; do share "$run/trace.safetensors" $layer; done >"$run/share.new" &&
            mv "$run/share.new" "$run/share.txt"
        rm -f "$run/trace.safetensors"
    done
}

# keys SPEC: the --set options of a router with its options
keys() {
    plugin=${1%%:*}
    printf -- '--set router.plugin=%s' "$plugin"
    case $1 in *:*) echo "${1#*:}" | tr '+' '\n' | while read -r key; do
        case ${key%%=*} in *.*) printf ' --set %s' "$key" ;; *) printf ' --set router.%s' "$key" ;; esac
    done ;; esac
}

# user_time: of all commands that this shell has waited for, in seconds
user_time() {
    times >"$out/times"
    awk 'NR == 2 { split($1, t, /[ms]/); print 60 * t[1] + t[2] }' "$out/times"
}

# Processor time of 150 steps of training on one thread, in rounds with every router. What other
# programs of the machine take does not count, though they make caches colder.
cost() {
    round=1
    user_time >"$out/spent" # what the runs before have spent is not of the first one
    while [ $round -le "$rounds" ]; do
        for router in $(list "$routers"); do
            began=$(cat "$out/spent")
            # shellcheck disable=SC2046 # words are words
            "$MOEFW" bench train "$model" --data "$data/tinyshakespeare.txt" $(keys "$router") \
                --repetitions 150 -t 1 >>"$out/log" 2>&1 || die 1 "moefw bench failed; $out/log tells"
            user_time >"$out/spent"
            echo "$round|$router|$(awk -v a="$began" '{ print $1 - a }' "$out/spent")"
        done
        round=$((round + 1))
    done >"$out/cost.new" && mv "$out/cost.new" "$out/cost.txt"
    rm -f "$out/spent" "$out/times"
}

title() {
    case $1 in
    *expert_bias*) echo "sigmoid_bias, expert_bias, no balance loss" ;;
    *quantile_bias*) echo "linear, quantile_bias, no balance loss" ;;
    hash:*) echo "hash" ;;
    *:moe.force_causal*) echo "${1%%:*} (not causal)" ;;
    *) echo "$1" ;;
    esac
}

quality() {
    echo "| router | val loss, nats/token | bits/byte | difference from linear | p | p after Holm | verdict | n |"
    echo "|---|---|---|---|---|---|---|---|"
    rows "$1" | while IFS='|' read -r name mean half diff lo hi p holm verdict _ _ _ _ n bits bits_half _; do
        title "$name" | awk -v m="$mean" -v h="$half" -v d="$diff" -v lo="$lo" -v hi="$hi" -v p="$p" -v holm="$holm" \
            -v verdict="$verdict" -v n="$n" -v b="$bits" -v bh="$bits_half" '{
            base = $0 == "linear"
            printf "| %s | %.4f ± %.4f | %.4f ± %.4f |", $0, m, h, b, bh
            if (base) printf "  |  |  | baseline |"
            else {
                printf " %+.4f [%+.4f, %+.4f] |", d, lo, hi
                printf p == "-" ? " - |" : p < 0.0001 ? " < .0001 |" : p < 0.001 ? " %.4f |" : " %.3f |", p
                printf holm == "-" ? " - |" : holm < 0.001 ? " %.4f |" : " %.3f |", holm
                printf " %s |", verdict
            }
            printf " %d |\n", n }'
    done
}

routing() {
    echo "| router | experts a token | CV of load | most used expert, share | entropy of a token, nats | probability of the chosen | token explains, layer 0 | layer 1 | position explains, layer 0 | layer 1 |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    rows "$1" | while IFS='|' read -r name _ _ _ _ _ _ _ _ _ _ _ cv _ _ _ folders; do
        for folder in $folders; do
            run=$1/$folder
            layers "$run" val load | awk '{ m = 0; for (i = 2; i <= NF; i++) if ($i > m) m = $i; print "load", m }'
            layers "$run" val count | awk -v tokens="$(value "$run" val tokens)" '{ m = 0; for (i = 2; i <= NF; i++) m += $i; if (tokens > 0) print "chosen", m / tokens }'
            layers "$run" val entropy | sed 's/^[0-9]* /entropy /'
            layers "$run" val top_prob | sed 's/^[0-9]* /top /'
            [ -s "$out/runs/$run/share.txt" ] &&
                awk '{ print "t" NR - 1, $1; print "p" NR - 1, $2 }' "$out/runs/$run/share.txt"
        done | awk -v name="$(title "$name")" -v cv="$cv" '
            $2 != "-" && $2 != "null" { s[$1] += $2; n[$1]++ }
            function f(k) { return n[k] ? sprintf("%.3f", s[k] / n[k] + 0) : "-" }
            END { printf "| %s | %s | %.3f | %s | %s | %s | %s | %s | %s | %s |\n", name,
                n["chosen"] ? sprintf("%.2f", s["chosen"] / n["chosen"]) : "-", cv, f("load"), f("entropy"), f("top"),
                f("t0"), f("t1"), f("p0"), f("p1") }'
    done
}

costs() {
    echo "| router | parameters of the routers | of the model | active a token | processor time of a step, linear = 1 | range over rounds |"
    echo "|---|---|---|---|---|---|"
    rows char | while IFS='|' read -r name _ _ _ _ _ _ _ _ params active router _; do
        [ -s "$out/cost.txt" ] || continue
        awk -F'|' -v name="$name" '
            $2 == "linear" { base[$1] = $3 }
            $2 == name { mine[$1] = $3 }
            END { for (r in mine) if (base[r] > 0) print mine[r] / base[r] }' "$out/cost.txt" | sort -n |
            awk -v name="$(title "$name")" -v p="$params" -v a="$active" -v r="$router" '
                { x[NR] = $1 }
                END { if (NR) printf "%.4f|| %s | %d | %d | %d | %.2f | %.2f to %.2f |\n", x[int((NR + 1) / 2)], name, r, p, a,
                    x[int((NR + 1) / 2)], x[1], x[NR] }'
    done | sort -n | cut -d'|' -f2-
}

# power TEXT: what so many seeds can show
power() {
    awk '{ text = text $0 }
        END {
            match(text, /"detectable_dz":[0-9.e+-]+/); dz = substr(text, RSTART + 16, RLENGTH - 16)
            match(text, /"compared":[0-9]+/); n = substr(text, RSTART + 11, RLENGTH - 11)
            match(text, /"seeds":[0-9]+/); s = substr(text, RSTART + 8, RLENGTH - 8)
            printf "%d seeds and %d comparisons show, in 4 of 5 such tables, a difference of %.1f standard deviations of a paired difference.\n", s, n, dz
        }' "$out/runs/$1/comparison.json"
}

# curve TEXT ROUTER: "step CV" of each logged step of training: the CV of the loads of a batch, the
# mean over layers and seeds
curve() {
    cat "$out/runs/$1/$2"/seed-*/metrics.jsonl | awk '
        /"split":"train"/ {
            line = $0
            match(line, /"step":[0-9]+/)
            step = substr(line, RSTART + 7, RLENGTH - 7)
            while (match(line, /"load_cv":[0-9.e-]+/)) {
                sum[step] += substr(line, RSTART + 10, RLENGTH - 10)
                n[step]++
                line = substr(line, RSTART + RLENGTH)
            }
        }
        END { for (s in n) print s, sum[s] / n[s] }' | sort -n
}

# The loads of four ways to balance, over the steps: an SVG
figure() {
    i=0
    echo '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 340" font-family="sans-serif" font-size="13">'
    echo '<rect width="720" height="340" fill="#fff"/>'
    for text in char bpe; do
        [ -s "$out/runs/$text.txt" ] || continue # it has not ended
        x=$((60 + 350 * i))
        i=$((i + 1))
        case $text in char) name='Tiny Shakespeare, characters' ;; *) name='WikiText-2, BPE' ;; esac
        for router in "linear|load_balance|#c0392b" "sigmoid_bias,controller.bias.plugin=expert_bias+$alone|expert_bias|#2874a6" \
            "linear,controller.bias.plugin=quantile_bias+$alone|quantile_bias|#b9770e" 'quantile|router quantile|#1e8449'; do
            curve $text "${router%%|*}" | sed "s/\$/ ${router#*|}/; s/|/ /"
        done | awk -v x=$x -v name="$name" '
            { step = $1; cv = $2; $1 = $2 = ""; colour = $NF; $NF = ""; label = $0; gsub(/^ +| +$/, "", label)
                if (!(label in path)) { order[++n] = label; ink[label] = colour }
                path[label] = path[label] sprintf("%s%.1f,%.1f", path[label] ? " " : "", x + step / 2.1, 280 - (cv < 1 ? cv : 1) * 220) }
            END {
                printf "<text x=\"%d\" y=\"24\" font-weight=\"bold\">%s</text>\n", x, name
                for (y = 0; y <= 10; y += 2) {
                    printf "<path d=\"M%d %dh290\" stroke=\"#ddd\"/>", x, 280 - 22 * y
                    printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f</text>\n", x - 6, 284 - 22 * y, y / 10
                }
                for (s = 0; s <= 600; s += 200)
                    printf "<text x=\"%.0f\" y=\"298\" text-anchor=\"middle\">%d</text>\n", x + s / 2.1, s
                printf "<text x=\"%d\" y=\"316\" text-anchor=\"middle\">step</text>\n", x + 143
                for (i = 1; i <= n; i++) {
                    printf "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"%s\"/>\n", ink[order[i]], path[order[i]]
                    printf "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", x + 160, 36 + 16 * i, ink[order[i]], order[i]
                }
                printf "<text x=\"%d\" y=\"44\" fill=\"#555\">CV of the loads of a batch</text>\n", x
            }'
    done
    echo '</svg>'
}

begin
: >>"$out/log"
if [ "$part" = rate ]; then
    for text in char bpe; do
        compare $text -rate --routers "$rates" --seeds 2 --set train.seed=101
        echo "## $text"
        cat "$out/runs/$text-rate.txt"
    done
    exit
fi
for text in char bpe; do
    wants $text && compare $text '' --routers "$routers" --baseline linear --seeds "$seeds"
done
for text in char bpe; do
    wants traces && traces $text
done
wants cost && cost
if wants figure; then figure >"$out/load_cv.svg"; fi
wants table || exit 0
for text in char bpe; do
    case $text in char) echo "## Tiny Shakespeare, characters" ;; *) echo "## WikiText-2, BPE of 1,024 ids" ;; esac
    echo
    quality $text
    echo
    power $text
    echo
    routing $text
    echo
done >"$out/table.md"
{
    echo "## Cost"
    echo
    costs
} >>"$out/table.md"
cat "$out/table.md"
