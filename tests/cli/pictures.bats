# Pictures of a run: routing at several evaluations, gates in numbers, attention of blocks and of
# experts, the structure, the weights.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# tiny DIR WORDS...: a language model, four evaluations
tiny() {
    dir=$1
    shift
    "$MOEFW" train -q -t 1 --out "$dir" --set data.path='builtin:topics?bytes=40000' \
        --set model.layers=2 --set model.dim=16 --set model.heads=2 --set model.seq=32 \
        --set moe.experts=4 --set expert.hidden=16 --set train.batch=2 --set train.eval_context=0 \
        --set train.eval_every=2 --set train.eval_batches=1 --set train.log_every=1 --steps 8 "$@" >/dev/null
}

# sentences FILE: "WORDS TAB LABEL"
sentences() {
    awk 'BEGIN { for (i = 0; i < 60; i++) print (i % 2 ? "a fine film it was" : "dull and so long") "\t" (i % 2 ? "pos" : "neg") }' >"$1"
}

# section FILE ID: its part of the page
section() {
    sed -n "/<section id=\"$2\">/,/<\/section>/p" "$1"
}

# sound FILE: no number is nan or inf, and nothing is loaded from elsewhere
sound() {
    sed '/^<script>/,/^<\/script>/d' "$1" >still.html
    ! grep -qiE '>[^<]*\b(nan|inf)\b|<script|url\(' still.html || false
    ! command -v xmllint >/dev/null || sed -e '1d' -e 's/<meta[^>]*>//g' still.html | xmllint --noout -
}

@test "routing at evaluations: the first, some between, the last in routing_sample.json" {
    tiny run --set report.samples=3
    [ "$(ls run/samples)" = "$(printf 'step-2.json\nstep-6.json')" ] # 1 and 3 of 4; 4 is the last
    grep -q '"step":6,"evaluation":3,"evaluations":4,' run/samples/step-6.json
    grep -q '"step":8,"evaluation":4,"evaluations":4,' run/routing_sample.json
    ! grep -q attention_weights run/samples/step-6.json || false
    section run/report.html evaluations >part
    [ "$(grep -c 'Layer [01], evaluation [134] of 4, step' part)" -eq 6 ]
    [ "$(grep -c 'gates of the chosen experts' part)" -eq 2 ]
    for step in 2 6 8; do grep -q ">step $step<" part; done
    sound run/report.html
    tiny none --set report.samples=0
    [ ! -e none/samples ]
    [ -z "$(section none/report.html evaluations)" ]
}

@test "maps of shares have one scale, around 1 / E; those of gates are pale at 1 / k; the text changes its topic" {
    tiny run --set report.samples=3
    # gates of two experts sum to 1, so .5 is the even one: the middle of 0 to 1
    section run/report.html evaluations | tr -d '\n' | sed 's/<figure>/\n<figure>/g' | grep '>gate</text>' >gates
    [ "$(wc -l <gates)" -ge 4 ]
    while read -r map; do
        [ "$(grep -oE '>(0|0\.5|1)</text>' <<<"$map" | sort -u | wc -l)" -eq 3 ]
        [[ "$map" == *"Pale is the even gate of 2 experts, 0.5."* ]]
    done <gates
    # four experts: the scale's ticks are a quarter of 1 / 4, the half, 1 / 4, its double, all
    for id in load labels routing evaluations; do
        section run/report.html $id | tr -d '\n' | sed 's/<figure>/\n<figure>/g' | grep -E '>(expert|label)</text>' | grep 'data-h=' | grep -v '>gate</text>' >maps || [ $id = evaluations ]
        [ -s maps ] || [ $id = evaluations ]
        while read -r map; do
            [ "$(grep -oE '>0?\.[0-9]+</text>|>1</text>' <<<"$map" | grep -cE '>(0\.062|0\.12|0\.25|0\.5|1)<')" -ge 5 ]
        done <maps
    done
    [ "$(grep -oE '"token_labels":\[[^]]*' run/routing_sample.json | cut -d'[' -f2 | tr , '\n' | uniq | wc -l)" -ge 2 ]
}

# A map with numbers: the contrast of each number to its cell, by WCAG 2.1.
contrasts() {
    awk '
        function hex(s, i) { return (index("0123456789abcdef", substr(s, i, 1)) - 1) * 16 + index("0123456789abcdef", substr(s, i + 1, 1)) - 1 }
        function part(v) { v /= 255; return v <= 0.04045 ? v / 12.92 : exp(2.4 * log((v + 0.055) / 1.055)) }
        function light(s) { return 0.2126 * part(hex(s, 2)) + 0.7152 * part(hex(s, 4)) + 0.0722 * part(hex(s, 6)) }
        /data-h=/ { split($0, q, /[( )"]/); for (i in q) if (q[i] == "translate") { left = q[i + 1]; top = q[i + 2] } else if (q[i] == "scale") { w = q[i + 1]; h = q[i + 2] }
            split("", cell); top -= h / 2 }
        /^<path stroke="#/ { ink = substr($0, 15, 7); d = $0; sub(/.* d="/, "", d); sub(/".*/, "", d); n = split(d, m, /M/)
            for (i = 2; i <= n; i++) { split(m[i], c, /[ h]/); for (k = 0; k < c[3]; k++) cell[c[1] + k, c[2] + 0] = ink } }
        /^<g font-size="11" text-anchor="middle" fill="#/ { text = $0; sub(/.*fill="/, "", text); text = substr(text, 1, 4); numbers = 1; next }
        /^<\/g>/ { numbers = 0 }
        numbers && /^<text/ { split($0, t, "\""); ink = cell[int((t[2] - left) / w), int((t[4] - top) / h)]
            a = light(text == "#fff" ? "#ffffff" : "#000000") + 0.05; b = light(ink) + 0.05; print (a > b ? a / b : b / a) }' "$1"
}

@test "numbers in maps can be read on their cells, in both schemes" {
    tiny run
    sed -n '/<section id="labels">/,/<\/section>/p' run/report.html >maps
    contrasts maps >found
    [ "$(wc -l <found)" -ge 16 ]
    awk '$1 < 4.5 { exit 1 }' found
    # text takes the colour of the page, but these take that of their group
    grep -qF 'svg text:not([fill]){fill:currentColor}' run/report.html
    grep -qF 'svg g[fill^="#"] text:not([fill]){fill:inherit}' run/report.html
    # an expert that was not chosen has no gate, so no colour
    section run/report.html evaluations | grep -oE 'data-h="4 [0-9]+ [^"]*" data-v="[^"]*"' |
        awk -F'"' '{ n++; v = $4; if (gsub(/ /, "", v) == 0) exit 1 } END { exit n < 6 }'
}

@test "a page is small, its marks have titles, heavy sections are closed, its text can be read" {
    "$MOEFW" train -q -t 1 --out like --set data.path='builtin:topics?bytes=60000' --set model.dim=16 \
        --set model.seq=64 --set expert.hidden=16 --set train.batch=2 --set train.eval_context=0 \
        --set train.eval_every=10 --set train.eval_batches=1 --set train.log_every=1 --steps 50 >/dev/null
    [ "$(wc -c <like/report.html)" -lt 300000 ] # four layers, eight experts, four heads, as default has
    sed '/^<script>/,/^<\/script>/d' like/report.html >figures
    # each line, point and bar is followed by its title
    ! grep -E '^<(circle|rect [^>]*fill="#[0-9a-f]{6}")' figures | grep -vE '<title>|height="(7|10)"|rx="5"|r="9"' || false
    ! grep -E '^<path d="M[^"]*" stroke="#[0-9a-f]{6}"[^>]*linejoin' like/report.html | grep -v '<title>' || false
    grep -q '<title>layer 3: ' like/report.html
    grep -q '<title>Layer 3, head ' like/report.html
    # maps: a value for each cell, with names for the script; a range for readers without it
    [ "$(grep -c 'data-h="' figures)" -ge 20 ]
    [ "$(grep -o 'data-h="[0-9]* [0-9]* ' figures | awk '{ gsub(/[^0-9 ]/, ""); n += $1 * $2 } END { print n }')" -ge 3000 ]
    grep -o 'data-h="[^"]*" data-v="[^"]*"' figures | awk -F'"' '{ split($2, h, " "); v = $4; n = gsub(/[ .]/, "", v) + length(v) / 2
        if (n != h[1] * h[2]) { print "cells:", $2, n; exit 1 } }'
    grep -qE '^<path stroke="#[0-9a-f]{6}" d="M[^"]*"><title>[0-9.e+-]+ to [0-9.e+-]+</title>' figures
    grep -q 'data-l="step' figures
    grep -q '^expert$' figures
    grep -q '^share of assignments"' figures
    # curves: where the box and the axes are; seconds of the steps
    [ "$(grep -c 'data-p="' figures)" -ge 12 ]
    grep -A1 '<div id="times"' figures | grep -qE '^1,[0-9.e-]+ .* 50,[0-9.]+$'
    ! grep -E '^<path class="l"' figures | grep -v '<title>' || false
    # figures are as wide as a telephone, with text of 11 or more
    [ "$(grep -oE '<svg [^>]*viewBox="0 0 [0-9]+' figures | sed 's/.* //' | sort -u)" = 360 ]
    grep -oE 'font-size="[0-9.]+"' figures | tr -dc '0-9.\n' | awk '$1 < 11 { exit 1 }'
    for id in evaluations attention structure; do
        [ "$(section like/report.html $id | grep -c '<details><summary>')" -ge 1 ]
    done
    section like/report.html learning | grep -q '<details open="open"><summary><h2>Learning</h2></summary>'
}

@test "samples of a run that was stopped after every step equal those of an uninterrupted run" {
    tiny whole --set report.sample_at=1,2,4
    tiny parts --set report.sample_at=1,2,4 --set train.time_limit=0.0001 || true
    for _ in 2 3 4 5 6; do
        "$MOEFW" train -q -t 1 --resume parts --set train.time_limit=0.0001 >/dev/null || true
    done
    # A killed run left samples of steps that will run again with another plan.
    cp parts/samples/step-2.json parts/samples/step-7.json
    "$MOEFW" train -q -t 1 --resume parts --set train.time_limit=0 >/dev/null
    [ "$(ls parts/samples)" = "$(printf 'step-2.json\nstep-4.json')" ]
    for file in samples/step-2.json samples/step-4.json routing_sample.json weights.json; do
        cmp "whole/$file" "parts/$file"
    done
}

@test "report.sample_at: invalid lists of evaluations are refused" {
    run "$MOEFW" config check --set report.sample_at=5,1
    [ "$status" -ne 0 ]
    [[ "$output" == *"sample_at"*"rising numbers of evaluations"*"'5,1'"* ]]
    run "$MOEFW" config check --set report.samples=17
    [ "$status" -ne 0 ]
}

@test "a classifier: gates in numbers, several sentences, attention of experts" {
    sentences train.tsv
    "$MOEFW" train tagat-balanced -q -t 1 --out run --data train.tsv --set data.val_path=train.tsv \
        --set model.dim=16 --set model.seq=16 --set model.vocab=auto --set train.batch=16 \
        --set train.epochs=2 --set train.eval_train=yes --set report.sample_at=1 >/dev/null
    sound run/report.html
    [ -s run/samples/step-4.json ]
    # More tokens than one sentence has; the gates of a token sum to 1 (each to six digits).
    grep -oE '"tokens":\["<cls>"[^]]*' run/routing_sample.json | head -n 1 | grep -oE '"<cls>"' >starts
    [ "$(wc -l <starts)" -ge 4 ]
    sed -E 's/.*"gate":\[\[(([^]]|\],\[)*)\]\].*/\1/; s/\],\[/\n/g' run/routing_sample.json |
        awk -F, '{ d = $1 + $2 - 1; if (NF != 2 || d > 1e-5 || d < -1e-5) exit 1; n++ } END { exit n != 64 }'
    section run/report.html routing | grep -q 'Layer 0: the gates of the first 20 tokens, in numbers'
    # Two numbers per token in the cells of the table.
    [ "$(section run/report.html routing | sed -n '/in numbers</,/<\/figure>/p' | sed -n '/^<g font-size="11" text-anchor="middle" fill=/,/^<\/g>/p' | grep -c '^<text x=')" -eq 40 ]
    # Each token of the first sentence attends in two of four experts, in all four heads of each:
    # rows that sum to 1. The other rows are all null.
    grep -oE '"expert":[0-3],"head":[0-3],"prob":\[\[([^]]|\],\[)*\]\]' run/routing_sample.json >heads
    [ "$(wc -l <heads)" -eq 16 ]
    tokens=$(sed -E 's/.*"attention_weights":\{"tokens":([0-9]+).*/\1/' run/routing_sample.json)
    sed -E 's/.*"prob":\[\[//; s/\]\]//; s/\],\[/\n/g' heads |
        awk -F, -v n="$tokens" '/null/ { if ($0 ~ /[0-9]/) exit 1; next }
            { sum = 0; for (i = 1; i <= NF; i++) sum += $i; if (NF != n || sum < 0.9999 || sum > 1.0001) exit 1; asked++ }
            END { exit asked != 8 * n }'
    [ "$(section run/report.html attention | grep -c '<h3>Layer 0, expert [0-3], head [0-3]</h3>')" -eq 16 ]
    # The losses of both splits as points: two evaluations each.
    section run/report.html learning | sed -n '/<h3>Loss at the evaluations/,/<\/figure>/p' >part
    [ "$(grep -c '<circle' part)" -eq 4 ]
    # Balance from mean gates and from assignments, entropy of gates and of probabilities.
    section run/report.html load | grep -q 'Layer 0: mean gate of each expert'
    section run/report.html balance | grep -q '<h3>Gate entropy</h3>'
}

@test "attention of experts that see the whole batch, or others as zeros" {
    sentences train.tsv
    for scope in batch zeroed; do
        "$MOEFW" train tagat-balanced -q -t 1 --out "$scope" --data train.tsv --set data.val_path=train.tsv \
            --set model.dim=16 --set model.seq=16 --set model.vocab=auto --set train.batch=16 \
            --set train.epochs=1 --set expert.scope="$scope" >/dev/null
        grep -oE '"expert":[0-3],"head":[0-3],"prob":\[\[([^]]|\],\[)*\]\]' "$scope/routing_sample.json" |
            sed -E 's/.*"prob":\[\[//; s/\]\]//; s/\],\[/\n/g' | grep -v null >rows
        # The first of eight sentences is shown: with attention over the batch, little of the weight
        # is inside it.
        awk -F, -v scope="$scope" '{ sum = 0; for (i = 1; i <= NF; i++) { if ($i < 0) exit 1; sum += $i }
            all += sum; n++; if (sum > 1.0001 || (scope == "zeroed" && sum < 0.9999)) exit 2 }
            END { if (n == 0) exit 3; exit scope == "batch" && all / n > 0.5 ? 4 : 0 }' rows
    done
}

@test "attention of blocks without head gates, dense ones too" {
    tiny run --set model.layers=6
    # Four layers with the first and the last among them, four heads at most: here both.
    [ "$(grep -oE '"layer":[0-9],"head":[0-9]' run/routing_sample.json | sort -u | tr '\n' ' ')" = \
        "$(printf '"layer":%d,"head":0 "layer":%d,"head":1 ' 0 0 1 1 3 3 5 5)" ]
    sed -n 's/.*"layer":5,"head":1,"prob":\[\[\([^}]*\)\]\]}.*/\1/p' run/routing_sample.json | sed 's/\],\[/\n/g' >rows
    [ "$(grep -c , rows)" -eq 24 ]
    awk -F, '{ sum = 0; for (k = 1; k <= NF; k++) sum += $k
               if (sum < 0.9999 || sum > 1.0001) exit 1
               for (k = NR + 1; k <= NF; k++) if ($k != 0) exit 2 }' rows
    section run/report.html attention | grep -q '<h3>Layer 5, head 1</h3>'
    ! section run/report.html attention | grep -q 'Experts that attend' || false
    tiny dense --set model.moe_every=0 --steps 2
    section dense/report.html attention | grep -q '<h3>Layer 0, head 1</h3>'
    [ ! -e dense/samples ]
    ! grep -q 'id="routing"' dense/report.html || false
}

@test "weights at the start and at the end, of every kind" {
    tiny run
    grep -q '^{"step":0,"groups":\[{"group":"embedding","elements":4096,' run/weights.json
    section run/report.html structure >part
    for kind in "embedding (4096)" attention router experts norms head; do
        grep -qF "<h3>Weights: $kind" part
    done
    [ "$(grep -c '>at the start<' part)" -eq 6 ]
    [ "$(grep -c '>at the end<' part)" -eq 6 ]
    # The figure has the counts of config check.
    all=$("$MOEFW" config check run --json 2>/dev/null | sed -E 's/.*"params":([0-9]+).*/\1/')
    sum=$(grep -oE '"elements":[0-9]+' run/weights.json | awk -F: '{ n += $2 } END { print n }')
    [ "$all" -eq "$sum" ]
    # Without checkpoint and start weights: the structure alone, nothing counted.
    rm -r run/ckpt run/weights.json
    "$MOEFW" report run
    section run/report.html structure >part
    grep -q '<h3>Structure</h3>' part
    ! grep -q 'Weights:' part || false
    ! grep -q '[0-9] parameters<' part || false
    # A damaged checkpoint is reported.
    mkdir -p run/ckpt/step-8
    echo x >run/ckpt/step-8/model.safetensors
    "$MOEFW" report run
    grep -q 'Note: .*model.safetensors' run/report.html
    sound run/report.html
}

# shape WORDS...: the structure of a configuration, as the texts of its picture
shape() {
    mkdir -p shape
    "$MOEFW" config show "$@" >shape/config.ini
    echo '{"vocab":256,"classes":3,"params":1000,"params_active":500}' >shape/manifest.json
    echo '{"step":1,"split":"train","loss":1}' >shape/metrics.jsonl
    "$MOEFW" report shape >/dev/null
    sound shape/report.html
    section shape/report.html structure | grep -oE '<text[^>]*>[^<]*' | sed 's/.*>//' >texts
}

# has TEXT N: occurs N times
has() {
    [ "$(grep -cxF -- "$1" texts)" -eq "$2" ] || { echo "$1: $(grep -cxF -- "$1" texts)"; cat texts; return 1; }
}

@test "structure: equal blocks are drawn once, for 1 to 24 layers" {
    shape --set model.layers=1
    has "block 0" 1
    has "RMSNorm" 3
    has "mixture of 8 experts" 1
    has "router: linear" 1
    has "2 of 8 a token" 1
    has "expert 7" 1 # the last one, after the dots
    has "…" 1
    shape --set model.layers=24
    has "blocks 0 to 23" 1
    has "× 24" 1
    has "RMSNorm" 3
    shape --set model.layers=12 --set model.moe_every=2
    has "blocks 0 to 11" 1
    has "× 6" 1
    has "dense block" 1
    has "block with experts" 1
    has "A mixture of experts (block 1)" 1
    shape --set model.layers=8 --set model.moe_every=3
    has "blocks 0 to 5" 1
    has "dense blocks" 1
    has "× 2" 3 # groups; dense blocks in each; the blocks after the last group
    has "blocks 6 to 7" 1
    shape --set model.layers=6 --set model.moe_every=9
    has "blocks 0 to 5" 1
    has "mixture of 8 experts" 0
    has "head, 128 → 256" 1
}

@test "structure: every part of the configuration" {
    shape tagat-balanced
    has "+ positions, sinusoidal" 1
    has "expert 3" 1
    has "film" 3
    has "LayerNorm" 1
    has "the first token" 1
    has "head, 128 → 3" 1
    has "one of 3 classes" 1
    ! grep -q attention, texts || false
    shape tagat-balanced --set model.task=regress
    has "head, 128 → 1" 1
    has "a number" 1
    sed -i 's/"classes":3,/&"tasks":[{"name":"main","task":"classify","classes":3},{"name":"score","task":"regress"}],/' shape/manifest.json
    "$MOEFW" report shape >/dev/null
    section shape/report.html structure | grep -q '>main → 3, score → 1<'
    shape sentinel-quick --set model.skip=unet
    grep -q '^skip: unet_skip' texts
    grep -q 'head_gates' texts
    shape lamoe
    has "causal attention, 8 heads (4 kv)" 1
    has "router: noisy_topk" 1
    shape --set moe.shared_experts=2 --set film.mode=shared --set moe.experts=3 --set moe.capacity_factor=1.5
    has "2 shared" 1
    has "film" 1
    has "capacity factor 1.5, overflow: drop" 1
    has "expert 2" 1
    has "…" 1 # between two experts, because the shared ones take the place of the third
}

@test "structure: blocks that are dense by list" {
    shape --set model.layers=4 --set model.dense_layers=0
    has "block 0" 1
    has "blocks 1 to 3" 1
    has "feed-forward: swiglu, hidden 512" 1
    has "mixture of 8 experts" 1
    shape --set model.layers=6 --set model.dense_layers=1,3,5
    has "dense blocks" 1
    has "blocks with experts" 1
    [ "$(grep -cxF "× 3" texts)" -eq 2 ]
    shape --set model.layers=2 --set model.dense_layers=0-1
    has "blocks 0 to 1" 1
    has "mixture of 8 experts" 0
}
