# Blocks that differ: sections [block.NAME] and [expert.NAME], in training, traces, reports, swaps, plans and texts.

bats_require_minimum_version 1.5.0

small() {
    "$MOEFW" train -q -t 1 --set data.path='builtin:topics?bytes=40000' --set model.layers=4 --set model.dim=32 \
        --set model.heads=2 --set model.seq=32 --set expert.hidden=32 --set train.batch=2 --set train.eval_context=0 \
        --set train.eval_every=3 --set train.eval_batches=2 --set train.final_batches=2 --set train.save_every=3 \
        --set train.log_every=1 --set train.steps=6 "$@"
}

# 8, 4, 8, 4 experts, of which a token gets 2, 1, 2, 1
mixed=(--set block.thin.layers=1,3 --set block.thin.experts=4 --set block.thin.top_k=1)

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" OMP_WAIT_POLICY=passive
    small --out run "${mixed[@]}" --set trace.every=2 >/dev/null
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" OMP_WAIT_POLICY=passive
}

# lengths FILE KEY: the numbers of values in the lists KEY of the last line of FILE
lengths() {
    tail -n 1 "$1" | grep -oE "\"$2\":\[[^]]*\]" | awk -F, '{ printf "%s%d", (NR > 1 ? " " : ""), NF } END { print "" }'
}

# number KEY: its first value in the JSON in $output
number() {
    printf '%s\n' "$output" | grep -oE "\"$1\":[^,}]*" | head -n 1 | cut -d: -f2
}

# shape NAME SHAPE [RUN]: that of a tensor of a checkpoint
shape() {
    local head
    head=$(head -c 20000 "${3-run}/ckpt/step-6/model.safetensors" | tr -d ' \0')
    [[ "$head" == *"\"layers.$1\":{\"dtype\":\"F32\",\"shape\":[$2],"* ]]
}

@test "8, 4, 8, 4 experts: shapes of weights, metrics of each layer, the written sections" {
    [ "$(lengths run/metrics.jsonl load)" = "8 4 8 4" ]
    [ "$(lengths run/metrics.jsonl demand)" = "8 4 8 4" ]
    shape 0.router.weight 8,32
    shape 1.router.weight 4,32
    shape 3.expert.w2 4,32,32
    grep -A 3 '^\[block.thin\]' run/config.ini | grep -qx 'experts = 4'
    "$MOEFW" config check run/config.ini
    # the automatic value of renormalize follows top_k of the block
    sed -n '/^\[block.thin\]/,/^$/p' run/config.ini | grep -qx 'renormalize = no'
    sed -n '/^\[moe\]/,/^$/p' run/config.ini | grep -qx 'renormalize = yes'
}

@test "a resume, and an evaluation, have the same bits" {
    cp -r run again
    rm -r again/ckpt/step-6
    echo step-3 >again/ckpt/latest
    "$MOEFW" train again --resume -q -t 1
    cmp run/ckpt/step-6/model.safetensors again/ckpt/step-6/model.safetensors
    [ "$("$MOEFW" eval run --json -q | grep -o '"loss":[^,]*')" = "$("$MOEFW" eval again --json -q | grep -o '"loss":[^,]*')" ]
}

@test "a section that repeats the values of [moe] changes no bit" {
    small --out plain
    small --out repeated --set block.2.experts=8 --set block.2.top_k=2 --set block.2.capacity_factor=0 \
        --set block.2.shared_experts=0
    cmp plain/ckpt/step-6/model.safetensors repeated/ckpt/step-6/model.safetensors
    cmp <(timeless plain/metrics.jsonl) <(timeless repeated/metrics.jsonl)
    # a section for all blocks is another way to write [moe]
    small --out all --set block.every.layers=all --set block.every.experts=4 --set block.every.top_k=1
    small --out moe --set moe.experts=4 --set moe.top_k=1
    cmp all/ckpt/step-6/model.safetensors moe/ckpt/step-6/model.safetensors
}

@test "the last section that names a block counts" {
    small --out last --set block.a.layers=0-2 --set block.a.experts=4 --set block.1.experts=16
    [ "$(lengths last/metrics.jsonl load)" = "4 16 4 8" ]
}

@test "traces: the numbers of layers, a record, a replay, forced routing" {
    "$MOEFW" trace record run --batches 2 -o a.trace -q
    head -c 4000 a.trace | grep -q '"experts_by_layer":"8,4,8,4"'
    head -c 4000 a.trace | grep -q '"top_k_by_layer":"2,1,2,1"'
    for how in "" --forced; do
        # shellcheck disable=SC2086
        run "$MOEFW" trace replay a.trace run $how --json
        [ "$status" -eq 0 ]
        [ "$(number differ)" -eq 0 ]
    done
    small --out eight >/dev/null
    run "$MOEFW" trace replay a.trace eight
    [ "$status" -ne 0 ]
    [[ "$output" == *"a.trace: MoE layer 1 has 4 experts, the model 8"* ]]
}

@test "a report, a plan, a text, a swap of all routers" {
    "$MOEFW" report run -o run.html -q
    grep -q '4 to 8 experts, top 1 to 2' run.html
    cp "$srcdir/share/cluster/measured.ini" c.ini
    "$MOEFW" plan run/config.ini --cluster c.ini --set train.accumulate=8 --json >plan.json
    grep -q '"expert":4' plan.json
    run ! grep -q '"expert":8' plan.json # 8 does not divide 4
    "$MOEFW" generate run -p abc -n 5 -q >text
    [ -s text ]
    "$MOEFW" swap run --router mlp -o swapped --json --batches 2 -q -t 1 >swap.json
    [ "$(grep -oE '"load_after":\[[^]]*\]' swap.json | awk -F, '{ printf "%d ", NF }')" = "8 4 8 4 " ]
    "$MOEFW" train swapped/config.ini --out on -q -t 1 --set train.steps=1
    "$MOEFW" report on -o on.html -q
}

@test "the numbers of parameters" {
    # 32 x 96 weights of an expert: layer 1 has four experts, of which a token uses one
    output=$(cat run/manifest.json)
    all=$(number params) active=$(number params_active)
    [ $((all - active)) -eq $((2 * 6 * 32 * 96 + 2 * 3 * 32 * 96)) ]
}

@test "2 ranks have the same bits as one, also if they share the experts" {
    ranks_setup
    cd "$BATS_TEST_TMPDIR"
    equal "2" default --set block.1.experts=4 --set block.1.top_k=1 --set block.1.capacity_factor=1
    more=(--set parallel.expert=2)
    equal "2" default --set block.1.experts=4 --set block.1.top_k=1
    more=()
    run ranks 2 "${words[@]}" --out odd --set block.1.experts=3 --set parallel.expert=2
    refused 2 'in each block a number of experts that the ranks can share evenly'
}

@test "live options of a block: a schedule of block.thin.top_k" {
    small --out live --set block.thin.layers=1,3 --set controller.k.plugin=schedule --set controller.k.target=block.thin.top_k \
        --set block.thin.top_k=2 --set controller.k.from=2 --set controller.k.to=1 --set controller.k.whole=yes \
        --set controller.k.end=4
    grep -q '"option":"block.thin.top_k"' live/metrics.jsonl
    run small --out none --set block.all.layers=all --set block.all.top_k=2 --set controller.k.plugin=schedule \
        --set controller.k.target=moe.top_k --set controller.k.from=2 --set controller.k.to=1
    [ "$status" -eq 2 ]
    [[ "$output" == *"each block with experts has its own"* ]]
}

@test "[expert.NAME]: other experts in some blocks" {
    small --out experts --set expert.wide.layers=2-3 --set expert.wide.plugin=mlp --set expert.wide.hidden=64
    shape 1.expert.w13 8,64,32 experts
    shape 2.expert.w1 8,64,32 experts
    cp -r experts again2
    rm -r again2/ckpt/step-6
    echo step-3 >again2/ckpt/latest
    "$MOEFW" train again2 --resume -q -t 1
    cmp experts/ckpt/step-6/model.safetensors again2/ckpt/step-6/model.safetensors
}

# refuses MESSAGE WORDS...: the configuration is refused with this in its message
refuses() {
    local message=$1
    shift
    run small --out refused "$@"
    [ "$status" -eq 2 ] || { echo "$output"; return 1; }
    [[ "$output" == *"$message"* ]] || { echo "$output"; return 1; }
}

@test "refusals name key, value and what was expected" {
    refuses "top_k: expected at most as many as experts (1), found 2" --set block.1.experts=1
    refuses "found 4; there is no such block" --set block.4.experts=4
    refuses "found 0, a dense block" --set model.dense_layers=0 --set block.0.experts=4
    refuses "only a section whose name is a number needs no layers" --set block.deep.experts=4
    refuses "[block.1] is about block 1" --set block.1.layers=2 --set block.1.experts=4
    refuses "expected the value of [moe] with model.share_layers = yes" --set model.share_layers=yes --set block.1.experts=4
    refuses "expected the value of [moe] with model.layers_alike = yes" --set model.layers_alike=yes --set block.1.experts=4
    refuses "it is about shared experts" --set block.1.shared_hidden=8
    refuses "expected one expert with model.share_layers = yes" --set model.share_layers=yes --set expert.a.layers=1 \
        --set expert.a.plugin=mlp
    refuses "a plugin for such models declares MF_CONTROLLER_UNEQUAL" "${mixed[@]}" --set controller.q.plugin=quantile_bias
    refuses "one sum for all layers: expected layers with equally many experts" "${mixed[@]}" \
        --set regularizer.b.plugin=load_balance --set regularizer.b.layers=pooled
    refuses "unknown key 'admit'" --set block.1.admit=rank
    # only top_k differs: shared weights are possible
    small --out shared --set model.share_layers=yes --set block.1.top_k=1
}

@test "regularizers and controllers that read each layer's numbers train" {
    small --out many "${mixed[@]}" --set regularizer.balance.plugin=load_balance --set regularizer.z.plugin=z_loss \
        --set regularizer.s.plugin=simbal --set regularizer.e.plugin=entropy --set controller.b.plugin=smebu
    [ "$(lengths many/metrics.jsonl load)" = "8 4 8 4" ]
    small --out budget "${mixed[@]}" --set controller.b.plugin=expert_bias
}
