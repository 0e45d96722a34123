# bench infer: latency and memory of batches of examples, for a run or a configuration.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# value KEY: of the object in $output
value() { grep -oE "\"$1\":[-+0-9.e]+" <<<"$output" | head -n 1 | cut -d: -f2; }

# holds CONDITION of awk
holds() { awk "BEGIN { exit !($1) }"; }

small_model=(--set model.dim=16 --set model.seq=24 --set model.vocab=auto --set train.batch=16)

@test "a run's batches: times in order, per batch and per example, and memory" {
    awk 'BEGIN { for (i = 0; i < 70; i++) {
        s = "so"; for (j = 0; j < i % 9; j++) s = s " so"
        print s (i % 2 ? " good" : " bad") "\t" i % 2 } }' >train.tsv
    cp train.tsv dev.tsv
    "$MOEFW" train tagat-balanced -q -t 1 --out run "${small_model[@]}" --set train.epochs=1 --set report.enabled=no
    run "$MOEFW" bench infer run -t 1 --json --repetitions 12
    [ "$status" -eq 0 ]
    [[ "$output" == '{"what":"infer",'*'"threads":1,'*'"shape":{"batch":16,"seq":24,"dim":16,"layers":1,'*'"data":"val"'* ]]
    holds "$(value ms_min) <= $(value ms_p10) && $(value ms_p10) <= $(value ms) && $(value ms) <= $(value ms_p90) &&
        $(value ms_p90) <= $(value ms_max) && $(value ms_min) > 0"
    holds "($(value ms_example) * 16 / $(value ms) - 1) ^ 2 < 1e-12 && ($(value ms_example_p90) * 16 / $(value ms_p90) - 1) ^ 2 < 1e-12"
    holds "($(value examples_per_s) * $(value ms_example) / 1000 - 1) ^ 2 < 1e-12"
    holds "$(value params) * 4 / 1048576 <= $(value params_mib) && $(value params_mib) < 1 + $(value params) * 4 / 1048576"
    holds "$(value arena_mib) > 0 && $(value peak_rss_mib) > $(value arena_mib) &&
        $(value rss_mib) > $(value params_mib) && $(value rss_mib) <= $(value peak_rss_mib)"
    [ "$(value allocations_per_step)" = 0 ] # graphs of all lengths exist before
    # one example at a time, and truncated
    run "$MOEFW" bench infer run -t 1 --json --repetitions 12 --batch 1 --seq 8
    [[ "$output" == *'"shape":{"batch":1,"seq":8,'* ]]
    [ "$(value ms)" = "$(value ms_example)" ]
    run "$MOEFW" bench infer run -t 1 --seq 25
    [ "$status" -eq 2 ]
    [[ "$output" == *"the model takes at most 24 tokens"* ]]
    run bash -c '"$MOEFW" bench infer run -t 1 --repetitions 1 --data other.tsv 2>&1 >/dev/null'
    [ "$output" = "moefw: warning: --data=other.tsv is ignored: run has its own configuration" ]
    # without its data a run can still be measured
    rm train.tsv dev.tsv
    run "$MOEFW" bench infer run -t 1 --repetitions 3
    [ "$status" -eq 0 ]
    [[ "$output" == "moefw: warning: drawn tokens in place of the run's data: "*"train.tsv: there is no such file"*$'\n'"infer: "*" ms for a batch of 16 (p10 "*", p90 "*" ms an example "*"drawn tokens"*"peak memory"* ]]
}

@test "configurations, with data and without, and language models" {
    run bash -c '"$MOEFW" bench infer vanilla -t 1 --json --repetitions 2 --batch 2 --seq 16 --data missing.tsv 2>told'
    grep -qx "moefw: warning: drawn tokens in place of the configuration's data: .*missing.tsv: there is no such file.*" told
    [[ "$output" == *'"batch":2,"seq":16,"dim":128,'*'"params":4303747,'*'"data":"drawn"'* ]]
    run "$MOEFW" bench infer vanilla -t 1 --set model.classes=auto
    [ "$status" -eq 2 ]
    [[ "$output" == *"model.classes = auto needs data"* ]]
    run "$MOEFW" bench infer vanilla -t 1 --json --repetitions 2 --batch 2 --seq 16 --set model.task=regress \
        --set task.x.classes=5
    [ "$status" -eq 0 ]
    [ "$(value params)" = $((4303747 - 387 + 129 + 645)) ]
    run "$MOEFW" bench infer -t 1 --json --repetitions 2 --set data.path=builtin:topics?bytes=60000 \
        --set model.dim=32 --set model.layers=1 --set train.eval_context=0 --batch 2
    [[ "$output" == *'"data":"val"'* && "$output" != *warning* ]]
    holds "$(value tokens_per_s) > 0 && ($(value tokens_per_s) / (2 * 128 * 1000 / $(value ms)) - 1) ^ 2 < 0.01"
}

@test "graphs of all lengths share the memory of the longest" {
    [ -r /proc/self/status ] || skip "the system does not tell the memory of a process"
    if grep -qE '__(asan|ubsan|tsan)_' "$MOEFW"; then skip "a sanitizer's own memory comes on top"; fi
    awk 'BEGIN { for (i = 0; i < 320; i++) {
        s = "so"; for (j = 0; j < int(i / 16) * 6; j++) s = s " so"
        print s "\t" i % 2 } }' >train.tsv
    cp train.tsv dev.tsv
    memory() {
        run "$MOEFW" bench infer vanilla -t 1 --json --batch 16 --repetitions 40 --set model.vocab=auto \
            --set data.padding="$1"
        [ "$status" -eq 0 ]
    }
    memory max
    most=$(value rss_mib) arena=$(value arena_mib)
    memory batch # 16 lengths: separate graphs would need eight times as much
    holds "$arena > 4 && $(value rss_mib) - $most < $arena" || { echo "$most $(value rss_mib) $arena"; return 1; }
}

steps() { # of run/memory.jsonl
    sed -E 's/^\{"step":([0-9]+),"peak_rss_mib":[0-9.]+\}$/\1/' run/memory.jsonl | tr '\n' ' '
}

@test "each validation records the highest memory so far" {
    "$MOEFW" train -q -t 1 --out run --set data.path=builtin:topics?bytes=60000 --set model.layers=1 \
        --set model.dim=32 --set train.steps=4 --set train.eval_every=2 --set train.eval_batches=1
    if grep -q peak_rss run/metrics.jsonl; then return 1; fi
    [ "$(steps)" = "2 4 " ]
    awk '{ match($0, /"peak_rss_mib":[0-9.]+}$/); m = substr($0, RSTART + 15, RLENGTH - 16) + 0
        if (m < 5 || m > 4000 || m < last) exit 1; last = m }' run/memory.jsonl
    grep -q '>Memory<' run/report.html
    "$MOEFW" export csv run >table.csv
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "peak_rss_mib") k = i; next }
        ($2 == "val") != ($k > 5) { exit 1 } END { exit !(k > 0 && NR > 4) }' table.csv
    # the partial line that a crash leaves is removed on resume, as in metrics.jsonl, and reported
    # until then
    printf '{"step":6,"peak_rss_mib":9}\nx\n{"step":8,"peak' >>run/memory.jsonl
    "$MOEFW" report run
    grep -q 'memory.jsonl: 1 damaged line skipped' run/report.html
    grep -q 'memory.jsonl: the last line has no end; it was skipped' run/report.html
    "$MOEFW" export csv run 2>err | cmp - table.csv
    grep -q 'memory.jsonl: 2 damaged lines skipped' err
    "$MOEFW" train -q -t 1 --resume run --set train.steps=8 || true
    [ "$(steps)" = "2 4 6 8 " ]
    "$MOEFW" report run
    if grep -q 'memory.jsonl:' run/report.html; then return 1; fi
    rm run/memory.jsonl # as in runs of older versions
    "$MOEFW" report run
    if grep -q '>Memory<' run/report.html; then return 1; fi
    "$MOEFW" export csv run | awk '/peak_rss/ { exit 1 }'
}

@test "a profile has the calls of the timed runs only" {
    "$MOEFW" bench train -t 1 --repetitions 7 --profile --set model.dim=16 --set model.heads=2 --set model.kv_heads=2 \
        --set model.seq=16 --set train.batch=2 --set train.eval_context=0 --set data.path='builtin:topics?bytes=20000' \
        2>profile >/dev/null
    awk '$0 ~ /^op / { on = 1; next } on && /%/ { n++; sub(/.*%/, ""); if ($1 % 7) bad = 1 } END { exit bad || n < 5 }' profile ||
        { cat profile; false; }
}

@test "bench stored: each type that files have, beside a loop that reads the same bytes" {
    run "$MOEFW" bench stored --repetitions 1 -t 1 --json
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 10 ]
    all=$output
    for type in f32 bf16 f16 int4 mxfp4 f8_e4m3 f8_e5m2 int4_rows int8 int4_awq; do
        output=$(grep "\"type\":\"$type\"" <<<"$all")
        [ "$(value threads)" = 1 ]
        # both read the same bytes, so rates are as times
        holds "($(value gb_per_s) / $(value read_gb_per_s) / $(value share) - 1) ^ 2 < 1e-12 && $(value share) == $(value share_max)"
        holds "$(value bytes) > 2 ^ 27 && $(value bytes) <= 2 ^ 28"
    done
    # as text: a share of one pair is its own range
    run "$MOEFW" bench stored --repetitions 1 -t 1
    [[ "${lines[0]}" == "1 thread(s), "*"; a row (f32) for each of 8 experts [2048,2048], beside a loop that reads the same bytes" ]]
    [ "${lines[1]}" = "type      experts       MB   GB/s reading  share  of 1 pairs" ]
    tail -n +3 <<<"$output" | awk '{ off = $4 / $5 - $6; bad = bad || NF != 9 || $6 != $7 || $8 != "to" || $7 != $9 ||
        $3 < 134 || $3 > 268.5 || off > .1 * $6 || off < -.1 * $6; all = all $1 " " } END { exit bad || all != "f32 bf16 f16 int4 mxfp4 f8_e4m3 f8_e5m2 int4_rows int8 int4_awq " }'
}
