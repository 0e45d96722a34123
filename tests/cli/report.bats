# moefw report: the page of one run, of several runs, of damaged runs.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

# make_run FOLDER: a small run as training leaves it
make_run() {
    mkdir -p "$1"
    "$MOEFW" config show >"$1/config.ini"
    printf '{"moefw":"0.1.0","params":1000,"params_active":500,"entropy_floor":1.5}\n' >"$1/manifest.json"
    for step in 10 20 30 40; do
        moe='[{"layer":0,"entropy":1.2,"top_prob":0.5,"load":[0.25,0.75],"importance":[0.3,0.7],"load_cv":0.5,"drop_rate":0.1,"reassigned":0,"empty":0,"nmi":0.4}]'
        for split in train val; do
            echo "{\"step\":$step,\"split\":\"$split\",\"loss\":$((60 - step)).5,\"task_loss\":$((60 - step)),\"lr\":0.001,\"grad_norm\":1,\"tokens\":$([ $split = val ] && echo 800 || echo $((step * 100))),\"tokens_per_s\":1000,\"wall_s\":$step,\"regularizers\":{\"b<\":1},\"controllers\":{},\"moe\":$moe}"
        done
    done >"$1/metrics.jsonl"
    cat >"$1/routing_sample.json" <<'END'
{"step":40,"labels":["sea","<law>"],"tokens":["a"," ","\n","<"],"token_labels":[0,0,1,-1],"layers":[
 {"layer":0,"experts":2,"top_k":1,"prob":[[0.1,0.9],[0.5,0.5],[1,0],[0,1]],"chosen":[[1],[0],[0],[1]],"by_label":[[10,1],[2,30]],"nmi":0.41,"nmi_random":0.002}]}
END
}

# hash_of PAGE: the hash of its script, as a browser computes it
hash_of() {
    sed -n '/^<script>/,/^<\/script>/p' "$1" | sed -e 's/^<script>//' -e '/^<\/script>$/d' >script
    sha256sum <script | cut -d' ' -f1 | sed 's/../\\x&/g' | { read -r hex; printf '%b' "$hex"; } | base64
}

# A page that loads nothing, runs only its own script, which makes no connection, and is well-formed.
sound_page() {
    grep -qF "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-$(hash_of "$1")'\"" "$1"
    [ "$(grep -c '<script' "$1")" -eq 1 ]
    ! grep -qE 'fetch|XMLHttp|import|eval|innerHTML|WebSocket|location|cookie|Storage' script || false
    sed '/<script>/,/<\/script>/d' "$1" >still.html
    ! grep -qiE '<img|<link|<iframe|javascript:|@import|url\(|[[:space:]]on[a-z]+=' still.html || false
    [ -z "$(grep -oE 'https?://[^"]*' still.html | grep -v '^http://www\.w3\.org/2000/svg$')" ]
    ! grep -qiE '>[^<]*\b(nan|inf)\b' still.html || false
    ! command -v xmllint >/dev/null || { sed -e '1d' -e 's/<meta[^>]*>//g' still.html; } | xmllint --noout -
}

@test "a run: every section, escaped" {
    make_run runs/x-1
    run "$MOEFW" report runs/x-1
    [ "$status" -eq 0 ]
    [ "$output" = runs/x-1/report.html ]
    sound_page runs/x-1/report.html
    for id in learning balance load labels routing repeat; do
        grep -q "<section id=\"$id\">" runs/x-1/report.html
    done
    grep -q '&lt;law&gt;' runs/x-1/report.html
    ! grep -q '<law>' runs/x-1/report.html || false
    grep -q 'entropy floor' runs/x-1/report.html
    grep -q 'moefw train runs/x-1/config.ini' runs/x-1/report.html
    ! grep -q 'id="model"' runs/x-1/report.html || false # an older manifest: no parameters by module
    printf '%s\n' '{"moefw":"0.1.0","modules":[{"module":"router","loaded":40,"inference":40,"bytes_loaded":160,"bytes_inference":160},{"module":"ex<perts","loaded":8388608,"inference":2097152,"bytes_loaded":33554432,"bytes_inference":8388608}]}' >runs/x-1/manifest.json
    "$MOEFW" report runs/x-1
    sound_page runs/x-1/report.html
    grep -q '<section id="model">' runs/x-1/report.html
    tr -d '\n' <runs/x-1/report.html | grep -qE 'ex&lt;perts</td><td[^>]*>8388608</td><td[^>]*>2097152</td><td[^>]*>32.00</td><td[^>]*>8.00<'
    tr -d '\n' <runs/x-1/report.html | grep -qE 'all</td><td[^>]*>8388648</td><td[^>]*>2097192<'
}

@test "the same input gives the same page" {
    make_run x
    "$MOEFW" report x -o a.html
    "$MOEFW" report x -o b.html
    cmp a.html b.html
}

@test "several runs in the same figures" {
    make_run "runs/x y-1"
    make_run runs/z-2
    run "$MOEFW" report "runs/x y-1" runs/z-2 --out both.html
    [ "$status" -eq 0 ]
    sound_page both.html
    grep -q '<section id="runs">' both.html
    # what differs comes first
    grep -q 'The configurations are the same' both.html
    sed -i 's/^experts = 8/experts = 4/' runs/z-2/config.ini
    "$MOEFW" report "runs/x y-1" runs/z-2 --out both.html
    sound_page both.html
    [ "$(grep -oE '<section id="[a-z]*"' both.html | head -1)" = '<section id="differences"' ]
    grep -qF '<td>moe.experts</td><td>8</td><td>4</td>' both.html
    grep -q "moefw report &#39;runs/x y-1&#39; runs/z-2" both.html
}

@test "runs with different tokenizers are compared in bits per byte" {
    make_run runs/a
    make_run runs/b
    sed -i 's/"split":"val","loss"/"split":"val","bits_per_byte":2,"loss"/' runs/*/metrics.jsonl
    "$MOEFW" report runs/a runs/b -o same.html
    grep -q '<h3>Loss</h3>' same.html
    sed -i 's/"bits_per_byte":2/"bits_per_byte":1.5/' runs/b/metrics.jsonl
    "$MOEFW" report runs/a runs/b -o other.html
    sound_page other.html
    grep -q '<h3>Loss, bits/byte</h3>' other.html
    ! grep -qE '<h3>(Loss|Perplexity)<|nats/token' other.html || false
    tr -d '\n' <other.html | grep -q '<td class="n" data-c="bits/byte">1.5</td>'
    grep -q 'different tokenizers' other.html
}

@test "one spelling of units" {
    make_run runs/a
    make_comparison cmp
    "$MOEFW" report runs/a
    "$MOEFW" report cmp
    cat runs/a/report.html cmp/report.html >pages
    grep -q '>nats/token<' pages
    grep -q 'tokens/s' pages
    ! grep -qiE '(nats|ns|bits|microseconds)( of training)? (a|per) (token|byte)|tokens (a|per) second|nats an example' pages || false
}

@test "metrics.jsonl is enough for a page" {
    make_run x
    rm x/config.ini x/manifest.json x/routing_sample.json
    run "$MOEFW" report x
    [ "$status" -eq 0 ]
    sound_page x/report.html
    grep -q 'Note: ' x/report.html
}

@test "damaged lines are skipped and counted; damaged files are noted" {
    make_run x
    sed -i '3s/.*/{"step":20,"spl/' x/metrics.jsonl
    printf '{"step":50,"split":"tr' >>x/metrics.jsonl
    echo '{' >x/manifest.json
    echo '[' >x/routing_sample.json
    printf '[model\n' >x/config.ini
    run "$MOEFW" report x
    [ "$status" -eq 0 ]
    sound_page x/report.html
    grep -q '1 damaged line skipped' x/report.html
    grep -q 'last line has no end' x/report.html
    grep -q 'Note: manifest.json' x/report.html
    grep -q 'Note: config.ini:1' x/report.html
    # however many there are
    mkdir -p x/samples
    for step in 11 12 13 14 15 16 17 18; do echo '[' >x/samples/step-$step.json; done
    "$MOEFW" report x
    for step in 11 18; do grep -q "Note: .*step-$step.json" x/report.html; done
    [ "$(grep -o 'Note: ' x/report.html | wc -l)" -ge 12 ]
}

@test "a dense model has no sections about experts" {
    make_run x
    rm x/routing_sample.json
    sed -i 's/"moe":\[.*\]/"moe":[]/' x/metrics.jsonl
    run "$MOEFW" report x
    [ "$status" -eq 0 ]
    ! grep -qE 'id="(load|balance|labels)"' x/report.html || false
}

@test "one measurement is a point" {
    make_run x
    "$MOEFW" report x
    # of several the best is marked, and the last alone is a point, of an axis that begins at 0
    [ "$(sed -n '/<h3>Loss</,/<\/figure>/p' x/report.html | grep -c '<circle')" -eq 1 ]
    sed -n '/<h3>Loss</,/<\/figure>/p' x/report.html | grep -q 'best, step 40: step 40, nats/token 20<'
    sed -i '/"step":[1-3]0,"split":"val"/d' x/metrics.jsonl
    "$MOEFW" report x
    [ "$(sed -n '/<h3>Loss</,/<\/figure>/p' x/report.html | grep -c '<circle')" -eq 1 ]
    sed -n '/<h3>Perplexity</,/<\/figure>/p' x/report.html >ppl
    sed -i 's/"split":"val",/"split":"val","ppl":7,/' x/metrics.jsonl
    "$MOEFW" report x
    sed -n '/<h3>Perplexity</,/<\/figure>/p' x/report.html | grep -qE '<text x="[0-9.]+" y="[0-9.]+">0</text>'
}

@test "validations that took other batches are no points of the curve" {
    make_run x
    # an old run does not say batches: the last one has other tokens
    sed -i '/"step":40,"split":"val"/{ s/"task_loss":20/"task_loss":5/; s/"tokens":800/"tokens":90000/ }' x/metrics.jsonl
    "$MOEFW" report x
    sed -n '/<h3>Loss</,/<\/figure>/p' x/report.html >loss
    grep -q 'at the end, more batches: step 40, nats/token 5<' loss
    grep -q 'validation: nats/token 30 at step 30' loss
    grep -q 'best, step 30: step 30, nats/token 30<' loss
    # a new one has what compares
    sed -i '/"step":40,"split":"val"/s/"tokens":90000/"tokens":90000,"batches":2000,"final":true,"curve_batches":8,"curve_tokens":800,"curve_loss":21,"curve_task_loss":19/' x/metrics.jsonl
    "$MOEFW" report x
    sed -n '/<h3>Loss</,/<\/figure>/p' x/report.html >loss
    grep -q 'at the end, 2000 batches: step 40, nats/token 5<' loss
    grep -q 'validation: nats/token 19 at step 40' loss
    grep -q 'best, step 40: step 40, nats/token 19<' loss
    grep -q 'step of the best validation</small><b>40<' x/report.html
}

@test "a folder that is not a run is refused, and nothing is written" {
    run "$MOEFW" report nowhere
    [ "$status" -eq 3 ]
    [[ "$output" == *"nowhere: there is no such run"* ]]
    mkdir empty
    : >empty/metrics.jsonl
    run "$MOEFW" report empty
    [ "$status" -eq 3 ]
    [ ! -e empty/report.html ]
    run "$MOEFW" report
    [ "$status" -eq 2 ]
}

# make_comparison FOLDER: two routers, two seeds, as compare leaves it
make_comparison() {
    for router in 'a<b' base; do
        for seed in 1 2; do
            make_run "$1/$router/seed-$seed"
        done
    done
    cat >"$1/comparison.json" <<'END'
{"metric":"task_loss","split":"val","higher_is_better":false,"baseline":"base","seeds":2,"steps":40,"equal":"steps","compared":1,"complete":true,"out":"elsewhere/cmp",
"rows":[
{"router":"base","baseline":true,"params":100,"params_router":10,"n":2,"failed":0,"mean":2.5,"ci95":[2.4,2.6],"rank":2,"diff":0,"diff_ci95":[0,0],"p_holm":null,"verdict":"no difference shown","load_cv":0.2,"drop_rate":0,"nmi":0.1,"nmi_best":0.2,"tokens_per_s":1000,
 "runs":[{"seed":1,"dir":"elsewhere/cmp/base/seed-1","task_loss":2.5,"nmi_best":0.1},{"seed":2,"dir":"elsewhere/cmp/base/seed-2","task_loss":2.5,"nmi_best":0.3}]},
{"router":"a<b","baseline":false,"params":90,"params_router":0,"n":2,"failed":1,"mean":2.25,"ci95":[2.1,2.4],"rank":1,"diff":-0.25,"diff_ci95":[-0.3,-0.2],"p_holm":0.01,"verdict":"better","load_cv":0.3,"drop_rate":0.1,"nmi":0.1,"nmi_best":0.2,"tokens_per_s":2000,
 "runs":[{"seed":1,"dir":"elsewhere/cmp/a<b/seed-1","task_loss":2.2,"nmi_best":0.2},{"seed":2,"dir":"elsewhere/cmp/gone/seed-2","task_loss":2.3,"nmi_best":0.2},{"seed":3,"dir":"x","failed":"why"}]}],
"skipped":[{"router":"c","reason":"it <looks> ahead"}]}
END
}

@test "a comparison: table, figures, single routers; it may have been moved" {
    make_comparison cmp
    run "$MOEFW" report cmp
    [ "$status" -eq 0 ]
    [ "$output" = cmp/report.html ]
    sound_page cmp/report.html
    for id in table quality curves load labels routing repeat; do
        grep -q "<section id=\"$id\">" cmp/report.html
    done
    grep -q '<td class="h">a&lt;b</td><td data-c="verdict">better</td><td class="n" data-c="task_loss">2.2500 ± 0.1500</td><td class="n" data-c="difference to base">-0.2500 ± 0.0500</td><td class="n" data-c="p (Holm)">0.0100</td>' cmp/report.html
    grep -q 'Skipped: c. it &lt;looks&gt; ahead' cmp/report.html
    grep -q '2, 1 failed' cmp/report.html
    ! grep -q 'a<b' cmp/report.html || false
    # a router without parameters has a place on the logarithmic axis of sizes
    sed -n '/<h3>Quality against size</,/<\/figure>/p' cmp/report.html >size
    [ "$(grep -c '<circle' size)" -eq 2 ]
    grep -q '>a&lt;b</text>' size
    # best first
    [ "$(grep -oE '<td class="h">(a&lt;b|base)</td>' cmp/report.html | head -1)" = '<td class="h">a&lt;b</td>' ]
}

@test "wide tables: on a small screen each value stands below the name of its column" {
    make_comparison cmp
    "$MOEFW" report cmp
    grep -q '@media(max-width:600px).*\.wide tr{display:grid' cmp/report.html
    sed -n '/<table class="wide">/,/<\/table>/p' cmp/report.html >tables
    grep '<th' tables | sed 's/<tr>//; s/<\/th>/\n/g' | sed -n 's/<th[^>]*>//p' | grep -v '^router$' >names
    [ "$(wc -l <names)" -ge 12 ]
    [ "$(grep -c '<td' tables)" -eq 2 ]
    grep '<td' tables | while read -r row; do
        grep -oE 'data-c="[^"]*"' <<<"$row" | sed 's/data-c="//; s/"$//' | cmp - names
        [ "$(grep -o '<td class="h">' <<<"$row" | wc -l)" -eq 1 ]
    done
    # all links of the contents lead somewhere
    grep -oE '<a href="#[a-z]+' cmp/report.html | sed 's/.*#//' | while read -r id; do grep -q "<section id=\"$id\">" cmp/report.html; done
    # two columns need no blocks
    make_run one; make_run two
    echo '[train]' >>two/config.ini
    sed -i 's/^lr = .*/lr = 0.5/' two/config.ini
    "$MOEFW" report one two -o runs.html
    sed -n '/<section id="differences">/,/<\/section>/p' runs.html | grep -q '<table>'
}

@test "figures shorten long names of routers; the table has all of them" {
    make_comparison cmp
    long=base:moe.top_k=1+router.temperature=0.25
    sed -i "s/\"router\":\"a<b\"/\"router\":\"$long\"/" cmp/comparison.json
    "$MOEFW" report cmp
    grep -q "<td class=\"h\">$long</td>" cmp/report.html
    grep -qF "In figures base:… stands for $long." cmp/report.html
    sed -n '/<svg/,/<\/svg>/p' cmp/report.html >figures
    [ "$(grep -c '>base:…</text>' figures)" -ge 3 ]
    ! grep -q "$long" figures || false
    # text of a legend ends where the figure does
    sed -i 's/"router":"base"/"router":"WWWWWWWWWWWWWWWWWWWWWWWW"/' cmp/comparison.json
    "$MOEFW" report cmp
    sed -n '/<section id="curves">/,/<\/section>/p' cmp/report.html | grep -oE '<text x="[0-9.]+" y="[0-9.]+">[Wb][^<]*' |
        awk -F'[">]' '{ n++; if ($2 + 7 * length($NF) > 375) exit 1 } END { exit n < 4 }'
}

@test "a comparison: its commands quote paths for the shell" {
    make_comparison "c m'p"
    run "$MOEFW" report "c m'p"
    [ "$status" -eq 0 ]
    # the commands as a person copies them, with files that only print their arguments
    commands=$(sed -n '/How to repeat/,$p' "c m'p/report.html" | tr '\n' '\r' |
        sed -E 's/.*<pre[^>]*>(<code>)?(moefw train [^\r]*\r[^/]*[^<]*).*/\2/' | tr '\r' '\n' |
        sed -e 's/&lt;/</g' -e "s/&#39;/'/g" -e 's/&quot;/"/g' -e 's/&amp;/\&/g')
    moefw() { printf '%s|' "$@"; echo; }
    run eval "$commands"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "train|c m'p/a<b/seed-1/config.ini|" ]
    [ "${lines[1]}" = "train|c m'p/base/seed-1/config.ini|" ]
    [ "${lines[2]}" = "report|c m'p|" ]
}

# curve FILE: the figure of the validation loss
curve() {
    tr '\n' ' ' <"$1" | grep -oE '<figure[^>]*>([^<]|<[^/]|</[^f])*>Validation loss<([^<]|<[^/]|</[^f])*</figure>'
}

@test "a comparison: a run without a value at some step does not shift its curve" {
    make_comparison one
    make_comparison two
    for seed in 1 2; do # in one of them only seed 2 has no loss at step 10
        sed -i -E '/"step":10,"split":"val"/s/"(task_)?loss":[0-9.]*/"\1loss":null/g' two/base/seed-$seed/metrics.jsonl
    done
    cp two/base/seed-2/metrics.jsonl one/base/seed-2/metrics.jsonl
    for c in one two; do
        "$MOEFW" report $c
        curve $c/report.html >$c.curve
        [ -s $c.curve ]
    done
    cmp one.curve two.curve
}

@test "a comparison that names a run outside of its folder is refused" {
    make_comparison cmp
    cp -r cmp/base/seed-1 other
    cp cmp/comparison.json as_made
    for dir in ../other .. /other x/.. base/../other a//; do
        sed "s|elsewhere/cmp/base/seed-2|$dir|" as_made >cmp/comparison.json
        run "$MOEFW" report cmp
        [ "$status" -eq 3 ] || { echo "$dir"; return 1; }
        [[ "$output" == *"comparison.json names a run outside of it: "* ]]
        [ ! -e cmp/report.html ]
    done
}

@test "a comparison without runs still has its table" {
    make_comparison cmp
    rm -r cmp/base cmp/a*
    run "$MOEFW" report cmp
    [ "$status" -eq 0 ]
    sound_page cmp/report.html
    echo '{"rows":7}' >cmp/comparison.json
    run "$MOEFW" report cmp
    [ "$status" -eq 3 ]
    echo '{"rows":' >cmp/comparison.json
    run "$MOEFW" report cmp
    [ "$status" -eq 3 ]
}

@test "correlation of expert balance and accuracy over evaluations" {
    make_run one
    # shares .5 +- d; the CV falls as d rises. d and accuracy rise, mostly at different times: their
    # correlation is 0.960, that of their changes 0.133
    while read -r step d accuracy; do
        moe='[{"layer":0,"entropy":1,"top_prob":0.5,"load":[0.5,0.5],"importance":['$(awk "BEGIN { print .5 + $d \",\" .5 - $d }")'],"load_cv":'$(awk "BEGIN { print .5 - $d }")',"drop_rate":0,"reassigned":0,"empty":0}]'
        echo "{\"step\":$step,\"split\":\"val\",\"loss\":1,\"task_loss\":1,\"lr\":null,\"grad_norm\":null,\"tokens\":9,\"tokens_per_s\":1,\"wall_s\":1,\"accuracy\":$accuracy,\"macro_f1\":0.5,\"regularizers\":{},\"controllers\":{},\"moe\":$moe}"
    done <<'END' >one/metrics.jsonl
10 0.02 0.5
20 0.05 0.56
30 0.04 0.54
40 0.09 0.62
50 0.1 0.66
60 0.13 0.64
70 0.12 0.7
80 0.16 0.75
90 0.19 0.74
100 0.18 0.8
END
    "$MOEFW" report one
    sound_page one/report.html
    tr -d '\n' <one/report.html | sed 's/<[^>]*>/ /g; s/  */ /g' >text
    grep -qF "one accuracy n = 10 0.96 0.133 -0.96 -0.133" text
    sed -i '$d' one/metrics.jsonl # nine are too few for a correlation
    "$MOEFW" report one
    if grep -qiE "go with quality|correlat" one/report.html; then return 1; fi
}

@test "seconds of an epoch and of its validation, from the times in metrics.jsonl" {
    mkdir timed
    # training 10, 13 and 7 s; validation 2, 1 and 3 s: tokens / tokens_per_s
    {
        echo '{"step":10,"split":"val","loss":1,"task_loss":1,"tokens":100,"tokens_per_s":50,"wall_s":12}'
        echo '{"step":20,"split":"val","loss":1,"task_loss":1,"tokens":100,"tokens_per_s":100,"wall_s":26}'
        echo '{"step":30,"split":"val","loss":1,"task_loss":1,"tokens":90,"tokens_per_s":30,"wall_s":36}'
    } >timed/metrics.jsonl
    printf '[train]\neval_epochs = 1\n' >timed/config.ini
    "$MOEFW" report timed -q
    grep -qF '<small>an epoch</small><b>10 s</b><small>its validation: 2 s; medians</small>' timed/report.html ||
        { grep -o 'an epoch</small>.*' timed/report.html; return 1; }
    grep -qF '<h3>Time of an epoch</h3>' timed/report.html
    grep -qF 'training: s 7 at step 30; from 7 to 13' timed/report.html
    grep -qF 'validation (right): s of the validation 3 at step 30; from 1 to 3' timed/report.html
    printf '[train]\neval_every = 10\n' >timed/config.ini
    "$MOEFW" report timed -q
    grep -qF '<h3>Time from one validation to the next</h3>' timed/report.html
    if grep -q 'an epoch' timed/report.html; then return 1; fi
}

@test "bench routers --report: table, figures and losses on one page" {
    run "$MOEFW" bench routers --routers linear,hash,oracle --dim 16 --experts 4 --batch 1 --seq 8 --seeds 1 \
        --repetitions 1 --no-layer -t 1 --report routers.html
    [ "$status" -eq 0 ]
    sound_page routers.html
    # no figure is wider than a telephone
    [ "$(grep -oE '<svg [^>]*viewBox="0 0 [0-9]+' routers.html | sed 's/.* //' | sort -u)" = 360 ]
    for title in Result "Time of the router" "Load of the experts" "Auxiliary losses, times 0.01"; do
        grep -qF "$title" routers.html
    done
    grep -q '<td class="h">hash</td><td class="n" data-c="parameters">0</td>' routers.html
    # the options as given, and a value that the shell would split
    "$MOEFW" bench routers --routers linear,hash --dim 16 --experts 4 --batch 2 --seq 8 --seeds 2 --alpha 0.5 \
        --hidden 8 --repetitions 3 -t 1 --report routers.html -q
    grep -qF '<pre>moefw bench routers --routers linear,hash --dim 16 --experts 4 --batch 2 --seq 8 --seeds 2 --repetitions 3 --hidden 8 --alpha 0.5 -t 1</pre>' routers.html
    # times on a logarithmic axis: points of one colour, sorted, with unit and batch in the title
    sed -n '/<h3>Time of router and experts, ns\/token, batches of 2 x 8 tokens</,/<\/figure>/p' routers.html >time
    [ "$(grep -c '<circle' time)" -eq 2 ]
    [ "$(grep -oE '<circle.*fill="#[0-9a-f]*"' time | sed 's/.*fill=//' | sort -u | wc -l)" -eq 1 ]
    [ "$(grep '<circle' time | sed 's/.*cy="\([0-9.]*\)".*/\1/' | sort -rn)" = "$(grep '<circle' time | sed 's/.*cy="\([0-9.]*\)".*/\1/')" ]
    ! sed -n '/<h3>Parameters of the router</,/<\/figure>/p' routers.html | grep -q '<circle' || false
    # single tokens: probabilities of each sum to 1, hash has one expert; outputs of the layer
    for router in linear hash; do
        sed -n "/<h3>$router: single tokens</,/<\/figure>/p" routers.html >bars
        grep -oE 'expert [0-3]: token [0-3] [0-9.e-]+' bars | sort -u |
            awk '{ sum[$4] += $5; most[$4] = $5 > most[$4] ? $5 : most[$4]; n++ }
                END { for (t in sum) print "token", t, n, (sum[t] > .9999 && sum[t] < 1.0001), most[t] == 1 }' | sort >sums
        [ "$(awk '$3 == 16 && $4' sums | wc -l)" -eq 4 ]
        grep -qF "<h3>$router: tokens and experts</h3>" routers.html
        grep -qF "<h3>$router: output of the layer</h3>" routers.html
    done
    [ "$(awk '$5' sums | wc -l)" -eq 4 ]
    ! "$MOEFW" bench routers --routers linear --seeds 1 --repetitions 0 --no-layer -q --report missing/routers.html || false
}

@test "attention heads: gates, entropy and weights" {
    "$MOEFW" train -q -t 1 --steps 4 --out gated --set model.layers=1 --set model.dim=16 --set model.heads=2 \
        --set model.kv_heads=1 --set model.seq=32 --set model.head_gates=yes --set model.moe_every=0 \
        --set train.batch=2 --set train.eval_every=2 --set train.eval_batches=1 --set train.eval_context=0 \
        --set 'data.path=builtin:topics?bytes=40000'
    sound_page gated/report.html
    for title in "Parameter efficiency" "1 / perplexity for each million of" "Attention heads" "Gates, step 4" "Entropy of the attention weights, step" "Layer 0, head 1"; do
        grep -qF "$title" gated/report.html
    done
    ! grep -q "One text" gated/report.html || false
    # The weights of a token sum to 1, and later tokens have weight 0.
    sed 's/.*"head":1,"prob":\[\[\([^}]*\)\]\]}.*/\1/; s/\],\[/\n/g' gated/routing_sample.json >rows
    [ "$(grep -c , rows)" -eq 24 ]
    awk -F, '{
        sum = 0
        for (k = 1; k <= NF; k++) sum += $k
        if (NF != 24 || sum < 0.9999 || sum > 1.0001) exit 1
        for (k = NR + 1; k <= NF; k++) if ($k != 0) exit 2 }' rows
}

# begin_run FOLDER: starts a run that would take hours, and waits for its first measurements;
# its process id is in $pid
begin_run() {
    # a shell that is not interactive starts background commands with SIGINT ignored
    env --default-signal=INT "$MOEFW" train -q --out "$1" --steps 1000000 --set model.layers=1 --set model.dim=32 --set model.seq=32 \
        --set train.eval_context=0 --set train.batch=2 --set moe.experts=2 --set expert.hidden=32 --set train.log_every=1 \
        --set train.schedule=constant --set train.eval_every=0 2>err &
    pid=$!
    for _ in $(seq 2000); do grep -qs '"step":3,' "$1/metrics.jsonl" && return; sleep 0.1; done
    cat err
    return 1
}

@test "an interrupted run has a report" {
    begin_run a
    [ ! -e a/report.html ]
    kill -INT $pid
    wait $pid || status=$?
    [ "$status" -eq 130 ]
    sound_page a/report.html
    grep -q '<section id="load">' a/report.html
    # a time limit is no other case
    "$MOEFW" train a --resume -q --set train.time_limit=0.2 || status=$?
    [ "$status" -eq 75 ]
    grep -q 'time limit' <("$MOEFW" train a --resume --set train.time_limit=0.2 2>&1)
}

@test "--watch writes the page again until the run ends" {
    begin_run a
    "$MOEFW" report --watch a --every 1 -o live.html >watched &
    watcher=$!
    for _ in $(seq 1000); do [ -e live.html ] && break; sleep 0.1; done
    grep -q '<meta http-equiv="refresh" content="1">' live.html
    first=$(cksum <live.html)
    for _ in $(seq 100); do [ "$(cksum <live.html)" != "$first" ] && break; sleep 0.1; done
    [ "$(cksum <live.html)" != "$first" ]
    kill -TERM $pid
    wait $pid || true
    wait $watcher
    [ "$(cat watched)" = live.html ]
    ! grep -q 'http-equiv="refresh"' live.html || false
    sound_page live.html
}
