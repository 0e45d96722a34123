# moefw prune: two ways to one loss, bits of no pruning, a new run that trains and leaves, third-party routers, refusals.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || return 1
    "$MOEFW" train default --set train.steps=150 --set train.lr=3e-3 --set moe.experts=8 --set data.path='builtin:topics?bytes=200000' \
        --set model.layers=2 --set model.dim=32 --set model.heads=2 --set model.seq=64 --set expert.hidden=32 \
        --set train.batch=8 --set train.eval_context=0 -t 1 -q -o run
}
setup() { cd "$BATS_FILE_TMPDIR" || return 1; }

# value FILE KEY: the first number of the key in a JSON object
value() {
    grep -o "\"$2\":[^,}]*" "$1" | head -n 1 | cut -d: -f2
}
# close A B LIMIT
close() {
    awk -v a="$1" -v b="$2" -v limit="$3" 'BEGIN { d = a - b; exit !(d <= limit && d >= -limit) }'
}

@test "no share is the same model, bit for bit" {
    "$MOEFW" prune run --share 0 --draws 0 --batches 2 --calibrate 2 -t 1 -q -o same
    run "$MOEFW" ckpt diff run same
    [[ "$output" == *identical* ]]
}

@test "the smaller model has the loss of the masked one, in eval, as a folder and after training" {
    "$MOEFW" prune run --by reap --share .25 --draws 0 --batches 0 --calibrate 4 -t 1 -q --json -o pruned >out
    [ "$(grep -o '"experts":\[[0-9]*,[0-9]*\]' out | wc -l)" -eq 2 ] # two of eight in each layer
    close "$(grep -o '"rows":\[{"by":"reap","loss":[0-9.]*' out | sed 's/.*://')" "$(value out written_loss)" 2e-6
    "$MOEFW" eval pruned -t 1 -q --json >eval
    close "$(value eval task_loss)" "$(value out written_loss)" 1e-5
    awk -v before="$(value out params_before)" -v after="$(value out params_after)" 'BEGIN { exit !(after < before) }'
    "$MOEFW" export hf pruned -q -o folder
    grep -qE '"num_local_experts": ?6\b' folder/config.json
    "$MOEFW" import folder -q -o back
    "$MOEFW" eval back --data 'builtin:topics?bytes=4000' -t 1 -q --json >there
    "$MOEFW" eval pruned --data 'builtin:topics?bytes=4000' -t 1 -q --json >here
    close "$(value there task_loss)" "$(value here task_loss)" 1e-5
    "$MOEFW" train pruned/config.ini --steps 20 -t 1 -q -o longer
    "$MOEFW" eval longer -t 1 -q --json >eval
    awk -v pruned="$(value out written_loss)" -v longer="$(value eval task_loss)" 'BEGIN { exit !(longer < pruned) }'
}

@test "merged experts: the smaller model has the loss of the merged one, and leaves; matching helps" {
    "$MOEFW" prune run --by merge --share .25 --draws 0 --batches 0 --calibrate 4 -t 1 -q --json -o merged >out
    [ "$(grep -o '"into":\[[0-9]*,[0-9]*\]' out | wc -l)" -eq 2 ]
    close "$(grep -o '"rows":\[{"by":"merge","loss":[0-9.]*' out | sed 's/.*://')" "$(value out written_loss)" 2e-6
    "$MOEFW" eval merged -t 1 -q --json >eval
    close "$(value eval task_loss)" "$(value out written_loss)" 1e-5
    "$MOEFW" export hf merged -q -o merged-folder
    "$MOEFW" import merged-folder -q -o merged-back
    "$MOEFW" eval merged-back --data 'builtin:topics?bytes=4000' -t 1 -q --json >there
    "$MOEFW" eval merged --data 'builtin:topics?bytes=4000' -t 1 -q --json >here
    close "$(value there task_loss)" "$(value here task_loss)" 1e-5
    # a row does not depend on the rows before: merged weights are put back
    "$MOEFW" prune run --by average,reap,merge --share .25 --draws 0 --batches 0 --calibrate 4 -t 1 -q --json >three
    [ "$(grep -o '"by":"merge","loss":[0-9.]*' three)" = "$(grep -o '"by":"merge","loss":[0-9.]*' out)" ]
    # gain: against reap, which removes the same experts
    tr '{' '\n' <three | awk -F'[:,]' '
        /^"by"/ { by = $2; loss[by] = $4 }
        gain { got[by] = $2; gain = 0 }
        /"gain":$/ { gain = 1 }
        END {
            for (by in got) { d = loss[by] - loss["\"reap\""] - got[by]; n += d * d < 1e-10 }
            exit !(n == 2 && loss["\"merge\""] < loss["\"average\""])
        }'
}

@test "merging wants experts whose hidden units are known" {
    small=(--set train.steps=2 --set moe.experts=4 --set data.path='builtin:topics?bytes=40000' --set model.layers=2 --set model.dim=16
        --set model.heads=2 --set model.seq=32 --set expert.hidden=8 --set train.batch=4 --set train.eval_context=0 -t 1 -q)
    "$MOEFW" train default "${small[@]}" --set expert.plugin=mixed --set expert.zeros=1 -o mixed
    run "$MOEFW" prune mixed --by merge --draws 0 --batches 1 --calibrate 1 -t 1 -q -o mixed-merged
    [ "$status" -eq 2 ]
    [[ "$output" == *"layer 0: expert mixed: layers.0.expert."*": expected experts that only have a hidden layer, with parameters w1 or w13"* ]]
    "$MOEFW" train default "${small[@]}" --set adapter.a.plugin=lora --set adapter.a.at='expert.*' -o lora
    run "$MOEFW" prune lora --by average --draws 0 --batches 1 --calibrate 1 -t 1 -q
    [ "$status" -eq 2 ]
    [[ "$output" == *"expert swiglu: layers.0."*": expected experts that only have a hidden layer,"*"and no adapters"* ]]
    # a plugin that means something else by these names: w1 leads from the hidden units
    sed 's/"w1"/"w0"/g; s/"w2"/"w1"/g; s/"w0"/"w2"/g; s/"mlp"/"other"/' "$srcdir/plugins/experts/mlp.c" >other.c
    ${CC:-cc} -std=c17 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared -o other.so other.c -lm
    "$MOEFW" train default "${small[@]}" --plugin ./other.so --set expert.plugin=./other.so --set expert.bias=no --set train.lr=.01 --set train.steps=20 -o other
    run "$MOEFW" prune other --plugin ./other.so --by merge --draws 0 --batches 1 --calibrate 1 -t 1 -q -o mixed-merged
    [ "$status" -eq 2 ]
    [[ "$output" == *"expert other: the loss with its hidden units in another order: expected "* ]]
    [ ! -e mixed-merged ]
}

@test "scores against random choices, with intervals" {
    run --separate-stderr "$MOEFW" prune run --by count,gates,norm,reap,probe --share .5 --draws 6 --batches 8 --calibrate 4 -t 1 -q
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 13 ] # a head, a table of seven lines, what each removes
    awk -v 'reap=4' '$1 == "reap" && $2 == 2 { n = NF; beats = $NF } END { exit !(beats >= 4) }' <<<"$output"
    while read -r line; do [ "${#line}" -le 80 ]; done <<<"$(sed -n '2,8p' <<<"$output")"
    # a probe of the set that was chosen finds the same loss: nothing of it depends on the other sets
    "$MOEFW" prune run --by reap --share .5 --draws 0 --batches 8 --calibrate 4 -t 1 -q --json >one
    "$MOEFW" prune run --by count,reap --share .5 --draws 2 --batches 8 --calibrate 4 -t 1 -q --json >two
    [ "$(grep -o '"by":"reap","loss":[0-9.]*' one)" = "$(grep -o '"by":"reap","loss":[0-9.]*' two)" ]
}

@test "routers with rows of experts are pruned, a third party's, too, and others are named" {
    small=(--set train.steps=20 --set moe.experts=8 --set data.path='builtin:topics?bytes=40000' --set model.layers=2 --set model.dim=16 --set model.heads=2
        --set model.seq=32 --set expert.hidden=8 --set train.batch=4 --set train.eval_context=0 -t 1 -q)
    fast=(--share .25 --draws 0 --batches 2 --calibrate 2 -t 1 -q)
    "$MOEFW" plugin new router mine >/dev/null
    make -s -C mine CC="${CC:-cc}" CPPFLAGS="-I$srcdir/include -I$builddir/include" >/dev/null
    "$MOEFW" train default --plugin mine/mine.so "${small[@]}" -o own
    "$MOEFW" prune own --plugin mine/mine.so "${fast[@]}" -o own-pruned
    "$MOEFW" train default --set router.plugin=sigmoid_bias "${small[@]}" -o sigmoid
    "$MOEFW" prune sigmoid "${fast[@]}" -o sigmoid-pruned
    while IFS='|' read -r router said; do
        "$MOEFW" train default --set "router.plugin=$router" "${small[@]}" -o "$router"
        run "$MOEFW" prune "$router" "${fast[@]}" -o "$router-pruned"
        [ "$status" -ne 0 ]
        [[ "$output" == *"$said"* ]] || { echo "$router: $output"; return 1; }
        [ ! -e "$router-pruned" ]
    done <<'EOF'
hadamard|the share of equal choices of the smaller model: expected 1,
hash|router hash selects experts by itself, not by scores that core reads
residual|expected one axis of experts, so this plugin cannot be pruned
EOF
}

@test "wrong words leave nothing" {
    while IFS='|' read -r words code said; do
        # shellcheck disable=SC2086
        run "$MOEFW" prune run --batches 1 --calibrate 1 -t 1 -q $words
        [ "$status" -eq "$code" ] || { echo "$words: $status $output"; return 1; }
        [[ "$output" == *"$said"* ]] || { echo "$words: $output"; return 1; }
    done <<'EOF'
--by best|2|--by: expected count, gates, norm, reap, merge, average, probe or random, or a list of these; found 'best'
--by count,reap -o both|2|--out writes one model: expected one score in --by, found 2
--share .05|2|--share 0.05 of 8 experts is none; expected at least 0.125
--share .9 -o few|2|layer 0: reap leaves 1 of 8 experts; expected at least 2
--text nowhere.txt -o gone|3|nowhere.txt
EOF
    [ ! -e both ]
    [ ! -e few ]
    [ ! -e gone ]
}
