# What learns, and what does not: routers with one expert a token, gates that an expert ignores,
# parameters without a gradient, and what train.freeze holds.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set_of=(-q -t 1 --set model.layers=2 --set model.dim=16 --set model.seq=16 --set model.heads=2
        --set moe.experts=4 --set train.batch=4 --set train.eval_every=0
        --set train.eval_context=0 --set train.warmup=0 --set report.enabled=no
        --set "data.path=builtin:topics?bytes=20000" --set moe.force_causal=yes)
    alone=("${set_of[@]}" --set regularizer.balance.plugin=none --set regularizer.z.plugin=none
        --set train.steps=20 --set moe.top_k=1)
}

@test "with one expert a token every router learns by default" {
    for r in linear attention sinkhorn sigmoid_bias noisy_topk cosine mlp mlp_hadamard hybrid self_supervised tia_r \
        base dselect_k dynmoe gumbel product_keys residual sparsemixer top_p two_level \
        threshold lapsum hyper; do
        run --separate-stderr "$MOEFW" train default "${alone[@]}" --set router.plugin=$r --out $r
        [ "$status" -eq 0 ]
        [ -z "$stderr" ] || { echo "$r: $stderr"; return 1; }
    done
    grep -qx 'renormalize = no' linear/config.ini
    "$MOEFW" config show default | grep -qx 'renormalize = yes' # for two experts, as ever
}

@test "gates that are always 1 are named, by training and by config check" {
    for r in linear attention sinkhorn noisy_topk; do
        run --separate-stderr "$MOEFW" train default "${alone[@]}" --set router.plugin=$r --set moe.renormalize=yes --out $r
        [ "$status" -eq 0 ]
        [[ "$stderr" == *"router $r: with one expert a token (moe.top_k = 1) and moe.renormalize = yes"* ]]
        [[ "$stderr" == *"the gradient of layers.0.router."*"was 0 in each of the first 20 steps"* ]]
    done
    run --separate-stderr "$MOEFW" train default "${alone[@]}" --set router.plugin=sigmoid_bias \
        --set router.renormalize=yes --out own
    [[ "$stderr" == *"router sigmoid_bias: with one expert a token"*"gates that the router has renormalised"* ]]
    run --separate-stderr "$MOEFW" config check default "${alone[@]}" --set moe.renormalize=yes
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"router linear: with one expert a token"* ]]
    run --separate-stderr "$MOEFW" config check default "${set_of[@]}" --set moe.renormalize=true
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
}

@test "an expert that ignores the gates that it has asked for is named" {
    ${CC:-cc} -std=gnu11 -DDEFECT=109 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -o ignores.so "$srcdir/tests/plugins/defects/other.c" -lm
    run --separate-stderr "$MOEFW" train default "${set_of[@]}" --plugin ./ignores.so --set train.steps=1 --out ignores
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"expert planted declares MF_EXPERT_GATES and does not read in->gate"* ]]
}

# held RUN WORDS...: the tensors that change between step 1 and step 6
held() {
    local out=$1
    shift
    "$MOEFW" train default "${set_of[@]}" --set train.steps=6 --set train.save_every=1 --set train.keep=9 --out "$out" "$@" \
        >"$out.log" 2>&1
    "$MOEFW" ckpt diff "$out/ckpt/step-1" "$out/ckpt/step-6"
}

@test "frozen is frozen: routers, experts, their buffers, and what controllers move" {
    for r in linear sigmoid_bias relu random noisy_topk self_supervised tia_r; do
        held "f-$r" --set "train.freeze=*" --set router.plugin=$r || { echo "$r"; return 1; }
    done
    for e in mlp attention; do held "f-$e" --set "train.freeze=*" --set expert.plugin=$e; done
    held f-bias --set "train.freeze=*" --set controller.c.plugin=expert_bias
    held f-capacity --set "train.freeze=*" --set moe.capacity_factor=1 --set controller.c.plugin=capacity
}

@test "a pattern freezes buffers as it does parameters" {
    run held part --set "train.freeze=router.*" --set router.plugin=sigmoid_bias
    [ "$status" -eq 1 ]
    [[ "$output" == *expert.w2* ]]
    [[ "$output" != *router.* ]]
    run held free --set router.plugin=sigmoid_bias
    [[ "$output" == *router.bias* ]]
    # Adapters learn beside a frozen model, and only they.
    run held lora --set "train.freeze=*" --set adapter.lora.plugin=lora --set router.plugin=sigmoid_bias
    [[ "$output" == *lora* ]]
    [[ "$output" != *router* ]]
}

@test "the low-rank changes of experts leave their biases" {
    "$MOEFW" train default "${set_of[@]}" --set expert.plugin=mlp --set lora.rank=2 --set "lora.targets=q, experts" \
        --set train.steps=2 --out lora
    grep -q 'at = attention.q, expert' lora/config.ini
    # a bias that is named is refused, as before
    run --separate-stderr "$MOEFW" train default "${set_of[@]}" --set expert.plugin=mlp --set lora.rank=2 \
        --set lora.targets=expert.b1 --set train.steps=2 --out bias
    [ "$status" -eq 2 ]
}


@test "the printed formula of tia_r has its gradient, and gates of 1 are 1" {
    for mode in literal priority; do
        "$MOEFW" train default "${set_of[@]}" --set router.plugin=tia_r --set router.mode=$mode --set router.lambda=-1 \
            --set regularizer.balance.plugin=none --set regularizer.z.weight=100 --set train.steps=1 --out $mode
    done
    norm() { sed -n 's/.*"grad_norm":\([0-9.]*\).*/\1/p;q' "$1/metrics.jsonl"; }
    [ "$(norm literal)" != "$(norm priority)" ]
    "$MOEFW" train default "${set_of[@]}" --set moe.unit_gates=yes --set moe.renormalize=no --set train.steps=1 \
        --set router.init_std=9 --out unit
    sed -n '1p' unit/metrics.jsonl | grep -q '"gate_entropy":0.69314'
}

@test "silent assignments count nowhere: the first step of densemix is that of linear" {
    local router more a b
    for more in moe.gate_scale=1 moe.capacity_factor=1.25; do
        for router in linear densemix; do
            rm -rf $router
            "$MOEFW" train default -q -t 1 --out $router --set router.plugin=$router --set train.steps=1 \
                --set train.log_every=1 --set model.dim=32 --set model.layers=2 --set model.seq=16 --set train.batch=2 \
                --set data.path='builtin:topics?bytes=20000' --set train.eval_every=0 --set train.eval_context=0 \
                --set train.eval_batches=1 --set report.enabled=no --set "$more"
        done
        a=$(grep '"split":"train"' linear/metrics.jsonl | grep -o '"[a-z_]*\(loss\|load_cv\|drop[a-z_]*\|entropy\)":[^,]*')
        b=$(grep '"split":"train"' densemix/metrics.jsonl | grep -o '"[a-z_]*\(loss\|load_cv\|drop[a-z_]*\|entropy\)":[^,]*')
        [ "$(wc -l <<<"$a")" -ge 6 ]
        [ "$a" = "$b" ] || { echo "$a"; echo "$b"; false; }
        ! cmp -s linear/ckpt/step-1/model.safetensors densemix/ckpt/step-1/model.safetensors || false
    done
    run "$MOEFW" train default -q --out x --set router.plugin=densemix --set moe.unit_gates=yes --set train.steps=1 \
        --set data.path='builtin:topics?bytes=20000'
    [ "$status" -eq 2 ]
    [[ "$output" == *"a router with silent assignments: expected moe.unit_gates = no"* ]] || { echo "$output"; false; }
}

# counted NAME FLAGS...: tests/plugins/third_party/counted.c as expert, in NAME.so
counted() {
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" -DEXPERT "${@:2}" \
        -o "$1.so" "$srcdir/tests/plugins/third_party/counted.c" -lm
}

@test "an expert counts and reports no silent assignments, and may not write buffers for them" {
    counted fine
    # the expert ends the run unless it counts two assignments a token
    "$MOEFW" train default "${set_of[@]}" --set router.plugin=densemix --plugin ./fine.so --set train.steps=3 --out fine
    # 64 tokens with 2 of 4 experts: 32 rows an expert
    [ "$(grep -o '"layers.[01].expert.rows":32[,}]' fine/metrics.jsonl | wc -l)" -ge 2 ] || { head -3 fine/metrics.jsonl; false; }
    counted writes -DWRITES
    "$MOEFW" train default "${set_of[@]}" --plugin ./writes.so --set train.steps=1 --out writes
    run "$MOEFW" train default "${set_of[@]}" --set router.plugin=densemix --plugin ./writes.so --set train.steps=1 --out no
    [ "$status" -eq 2 ]
    [[ "$output" == *"a router with silent assignments: expected an expert that writes no buffer, found op counted_mark"* ]] ||
        { echo "$output"; false; }
}
