# The pages in a browser, headless Chromium: two widths, light and dark. No console error, no sideways
# scrolling, text of a readable size that is not cut, axes with ticks, labels at their points, and
# the values of metrics.jsonl under the pointer. tests/lib/probe.js looks at a copy of each page.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" HOME="$BATS_FILE_TMPDIR"
    CHROMIUM=$(command -v chromium || command -v chromium-browser || true)
    export CHROMIUM
    [ -n "$CHROMIUM" ] || return 0
    tiny="--set model.dim=32 --set model.layers=2 --set model.heads=2 --set model.kv_heads=2 --set model.seq=32
        --set train.batch=8 --set train.eval_context=0 --set train.eval_every=10 --set train.eval_batches=2
        --set train.final_batches=12 --set train.log_every=1 --set data.path=builtin:topics?bytes=60000
        --set expert.hidden=32 -t 1 -q"
    # shellcheck disable=SC2086
    {
        "$MOEFW" train default $tiny --steps 40 --out one
        "$MOEFW" train default $tiny --steps 20 --seed 2 --out two
        "$MOEFW" report one two -o several.html
        cp "$builddir/plugins/routers/sigmoid_bias.so" mine.so
        "$MOEFW" --plugin ./mine.so compare default $tiny --routers linear,./mine.so,hash,noisy_topk \
            --seeds 2 --steps 20 --out cmp
        "$MOEFW" bench routers --dim 32 --seeds 1 --batch 1 --seq 32 --repetitions 1 --no-layer -t 1 --report bench.html
        "$MOEFW" bench routers --routers linear,hash --dim 32 --seeds 1 --batch 1 --seq 32 --repetitions 1 -t 1 --report outputs.html
        "$MOEFW" analyze one --outputs -t 1 -q --report analyzed.html
        "$MOEFW" swap one --router hash -t 1 -o swapped --report swap.html
        "$MOEFW" probe one --by label --batches 4 -t 1 --report probe.html
        "$MOEFW" train default $tiny --steps 1000000 --out going &
        going=$!
        for _ in $(seq 300); do [ "$(grep -c '"split":"val"' going/metrics.jsonl 2>/dev/null)" -ge 2 ] 2>/dev/null || sleep 0.1; done
        "$MOEFW" report going --watch --every 60 -o watched.html &
        for _ in $(seq 300); do grep -q '</html>' watched.html 2>/dev/null || sleep 0.1; done
        cp watched.html live.html
        kill $going
        wait
    } >made.txt 2>&1
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    [ -n "$CHROMIUM" ] || skip "Chromium is not installed (package: chromium)"
}

# browser SCHEME WORDS...: Chromium with a folder of its own, without network
browser() {
    local dark=1
    [ "$1" = light ] || dark=0
    timeout 120 "$CHROMIUM" --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir="$PWD/profile" \
        --host-resolver-rules='MAP * ~NOTFOUND' --blink-settings=preferredColorScheme=$dark \
        --virtual-time-budget=4000 --enable-logging=stderr "${@:2}"
}

# look PAGE [EXPECT [TITLES]]: what the probe finds at both widths in both schemes
look() {
    local scheme dark
    for scheme in light dark; do
        dark=true
        [ "$scheme" = dark ] || dark=false
        # the page's own policy forbids other scripts, so the copy has none; the page itself is loaded below
        {
            sed -e '/http-equiv="Content-Security-Policy"/d' \
                -e 's|^<head>|<head><script>window.FAULTS=[];onerror=function(m){FAULTS.push("error: "+m)};console.error=function(m){FAULTS.push("console: "+m)}</script>|' \
                -e '/^<\/body>/,$d' "$1"
            echo "<script>var DARK=$dark,EXPECT=[$2],TITLES=[$3];</script><script>"
            cat "$srcdir/tests/lib/probe.js"
            echo '</script></body></html>'
        } >copy.html
        cat >frame.html <<'END'
<!DOCTYPE html><body><pre id="said"></pre><script>
addEventListener('message', function (e) { document.getElementById('said').textContent += e.data + '\n'; });
</script><iframe src="copy.html" width="390" height="844"></iframe><iframe src="copy.html" width="1280" height="900"></iframe></body>
END
        browser $scheme --dump-dom "file://$PWD/frame.html" >dom.html 2>log.txt
        sed -n '/<pre id="said">/,/<\/pre>/p' dom.html | sed -e 's/.*<pre id="said">//' -e 's/<\/pre>.*//' >said.txt
        echo "$1, $scheme:" && cat said.txt
        [ "$(grep -c 'done$' said.txt)" -eq 2 ]
        [ "$(grep -vcE '^((390|1280) )?done$|^$' said.txt)" -eq 0 ]
        grep -q '^390 ' said.txt
        grep -q '^1280 ' said.txt
        # the page itself, with its policy
        browser $scheme --dump-dom "file://$PWD/$1" >/dev/null 2>log.txt
        ! grep -E 'CONSOLE|Refused|Uncaught' log.txt || false
    done
}

# validations RUN: step and task loss of each, of the last over the batches of the others
validations() {
    grep '"split":"val"' "$1/metrics.jsonl" |
        sed -E 's/"task_loss":[^,]*(,.*)"curve_task_loss":/\1"task_loss":/' |
        sed -nE 's/^\{"step":([0-9]+),.*"task_loss":([0-9.e+-]+).*/\1 \2/p'
}

@test "a page of one run: hover, the final validation and the best one" {
    local expect="" titles
    while read -r step loss; do
        expect+="['Loss','validation',$step,$loss],"
    done < <(validations one)
    [ "$(grep -o 'validation' <<<"$expect" | wc -l)" -eq 4 ]
    last=$(grep '"final":true' one/metrics.jsonl | sed -nE 's/^[^}]*"split":"val"[^}]*"task_loss":([0-9.]+),"lr".*/\1/p')
    titles="['Loss','at the end, 12 batches: step 40, nats/token $(printf '%.5g' "$last")'],['Loss','best, step']"
    look one/report.html "${expect%,}" "$titles"
}

@test "a page of several runs" {
    local expect="" run
    for run in one two; do
        while read -r step loss; do
            expect+="['Loss','$run',$step,$loss],"
        done < <(validations $run)
    done
    look several.html "${expect%,}"
}

@test "a page of a comparison, with a plugin's file" {
    local expect="" step mean router
    for router in linear hash; do
        for step in 10 20; do
            mean=$( (validations cmp/$router/seed-1; validations cmp/$router/seed-2) | awk -v s=$step '$1 == s { x += $2; n++ } END { printf "%.9g", x / n }')
            expect+="['Validation loss','$router',$step,$mean],"
        done
    done
    look cmp/report.html "${expect%,}"
    grep -q '>sigmoid_bias<' cmp/report.html
    grep -q 'sigmoid_bias is the plugin of ./mine.so' cmp/report.html
}

@test "a page of bench routers" {
    look bench.html
}

@test "a page of bench routers with outputs of the layer, and one of analyze" {
    look outputs.html
    look analyzed.html
}

@test "a page of a swap" {
    look swap.html
}

@test "a page of a probe" {
    look probe.html
}

@test "a page that is written again while a run goes on" {
    grep -q 'http-equiv="refresh"' live.html
    look live.html
}
