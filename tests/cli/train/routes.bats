# train.routes = trace: experts from a recording, gates from the router; imports of three engines' routes.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" OMP_WAIT_POLICY=passive
    for i in {1..40}; do echo "{\"text\":\"line $i of words $((i * 7919 % 97)) and $((i * 31 % 53)) things\"}"; done >lines.jsonl
    train start --steps 1 --set train.lr=0
    "$MOEFW" trace record start --split train --batches 0 -o start.trace -q >recorded
}
setup() { cd "$BATS_FILE_TMPDIR" || return 1; }

train() {
    dir=$1
    shift
    "$MOEFW" train default -t 1 --out "$dir" --set data.path=lines.jsonl --set data.tokenizer=char --set model.dim=16 \
        --set model.heads=2 --set model.seq=48 --set moe.experts=8 --set moe.top_k=2 --set expert.hidden=16 --set train.batch=4 \
        --set train.warmup=0 --set train.eval_every=0 --set train.eval_context=0 --set train.log_every=1 --set model.layers=2 --set train.lr=0.01 \
        "$@" >"$dir.out" 2>&1
}

# losses RUN: loss and norm of the gradient of each step, all digits
losses() {
    grep -o '"task_loss":[^,]*\|"grad_norm":[^,]*' "$1/metrics.jsonl"
}

@test "a run with its own routes has the bits of the run without, step for step" {
    # the input of the only router never changes, so the routes of the start are those of every step
    still='--set model.layers=1 --steps 5 --set train.freeze=router.*,embed.*,attention.*,norm1.*,norm2.*'
    # shellcheck disable=SC2086
    train one $still --set train.lr=0 --steps 1
    "$MOEFW" trace record one --split train --batches 0 -o one.trace -q
    # shellcheck disable=SC2086
    train free $still
    # shellcheck disable=SC2086
    train given $still --set train.routes=trace --set train.routes_from=one.trace
    losses free >a
    losses given >b
    [ "$(wc -l <a)" -ge 10 ]
    cmp a b
    [ "$(grep -c 'routes: 1.0000 of tokens as the router would choose (overlap 1.0000), 0.0000 without a record' given.out)" -eq 5 ]
    # what is computed again in the backward pass goes by the same experts
    # shellcheck disable=SC2086
    train block $still --set train.recompute=block --set train.routes=trace --set train.routes_from=one.trace
    losses block | cmp a -
}

@test "with the routes of the start the first step is the same, and the routers learn through their gates" {
    train free2 --steps 4
    train given2 --steps 4 --set train.routes=trace --set train.routes_from=start.trace
    [ "$(losses free2 | head -n 2)" = "$(losses given2 | head -n 2)" ]
    [ "$(losses free2)" != "$(losses given2)" ]
    grep -q 'routes: 1.0000 of tokens' given2.out
    grep -q 'routes of all logged steps: 0[.].* 0.0000 without a record' given2.out
    # only the gates can lower the loss here
    train gates --steps 6 --set train.routes=trace --set train.routes_from=start.trace --set train.lr=0.05 --set data.limit=4 \
        --set train.freeze='embed.*,attention.*,norm*,expert.*,head.*' --set regularizer.load_balance.weight=0
    losses gates | awk -F : '/loss/ { v[++n] = $2 } END { exit !(v[n] < v[1] - .001) }'
}

@test "texts without a record, and refusals" {
    sed 's/line/LINE/; s/words/WORDS/' lines.jsonl >other.jsonl
    refused() {
        run ! train no --steps 1 --set train.routes=trace "$@"
        rm -rf no
    }
    refused --set train.routes_from=start.trace --set data.path=other.jsonl --set data.tokenizer=byte
    grep -q 'of the tokens of the first step have a record; expected the sequences that are trained' no.out
    refused
    grep -q 'expected train.routes_from = FILE' no.out
    refused --set train.routes_from=start.trace --set moe.top_k=1
    grep -q "tensor 'layers.0.chosen': expected I32 of .* tokens and 1 experts each" no.out
    refused --set train.routes_from=start.trace --set model.layers=1
    grep -q 'routes of the layers 0,1; the model has experts in 0' no.out
    refused --set train.routes_from=start.trace --set router.plugin=hash
    grep -q 'expected a router that leaves the choice of experts to core' no.out
    refused --set train.routes_from=start.trace --set model.causal=no
    grep -q 'expected a causal language model' no.out
    refused --set train.routes_from=lines.jsonl
    grep -q 'lines.jsonl' no.out
}

# row OFFSET N: N numbers from element OFFSET on of the data of engine.trace
row() {
    head -c 8 engine.trace | od -An -tu8 >length
    od -An -v -w4 -td4 -j $(($(tr -d ' ' <length) + 8 + 4 * $1)) -N $((4 * $2)) engine.trace | tr -d ' ' | tr '\n' ' '
}

@test "routes of vLLM, SGLang and Megatron become one trace" {
    "$MOEFW" train default -q -t 1 --steps 1 --out bytes --set data.path=lines.jsonl --set data.tokenizer=byte --set model.layers=4 \
        --set model.moe_every=2 --set model.dim=8 --set model.heads=1 --set model.seq=32 --set moe.experts=8 --set moe.top_k=2 \
        --set expert.hidden=8 --set train.batch=2 --set train.eval_every=0 --set train.eval_context=0
    for engine in vllm vllm021 sglang megatron; do
        run "$MOEFW" trace import ${engine%021} "$srcdir/tests/golden/routes/$engine.jsonl" bytes -o $engine.trace
        [ "$status" -eq 0 ]
        [ "$output" = "$engine.trace: 3 sequences, 29 tokens, 26 with experts" ]
        "$MOEFW" trace diff vllm.trace $engine.trace | grep -q '^same: every token chooses the same experts'
    done
    # layers.1.chosen [3 13, 2], then layers.3.chosen; sequence 1 begins at token 13
    cp sglang.trace engine.trace
    awk -v s=0 'BEGIN { for (l = 1; l <= 3; l += 2) for (s = 0; s < 3; s++) for (t = 0; t < 13; t++) for (j = 0; j < 2; j++) {
        n = s == 0 ? 10 : s == 1 ? 4 : 12
        printf "%d ", t < n ? (3 * t + 5 * l + s + j * (1 + t % 3)) % 8 : -1 } }' >formula
    [ "$(row 0 156)" = "$(cat formula)" ]
    # an import has no gates
    run "$MOEFW" trace replay vllm.trace bytes --forced
    [[ "$status" -eq 3 && "$output" == *"no gates, so they cannot be forced"* ]]
}

@test "routes that are no routes of the run" {
    line='{"prompt_tokens":[1,2],"generated_tokens":[3],"moe_topk_indices":'
    refused() {
        echo "$line$1}" >bad.jsonl
        run "$MOEFW" trace import megatron bad.jsonl bytes -o bad.trace
        [ "$status" -eq 3 ] || { echo "$output"; return 1; }
        [[ "$output" == *"bad.jsonl:1: $2"* ]] || { echo "$output"; return 1; }
        [ ! -e bad.trace ]
    }
    refused '[[[1,2],[8,1]],[[1,2],[3,4]]]' 'token 0, layer 3: expert 8; expected 0 to 7'
    refused '[[[1,2],[3,4]],[[1,1],[3,4]]]' 'token 1, layer 1: expert 1 twice'
    refused '[[[1,2],[3,4]],[[0,0],[3,4]]]' 'token 1, layer 1: all experts are 0: the engine did not record it'
    refused '[[[1,2],[3,4]],[[1,2],[3,4]],[[1,2],[3,4]],[[1,2],[3,4]]]' 'routes of tokens 0 to 3, of 3 tokens'
    refused '[[[1,2]],[[1,2]]]' 'expected routes of [tokens, 2 layers, 2 experts], found [2, 1, 2]'
    refused '[[[1,2],[3]]]' 'expected lists of the same length'
    refused null 'expected routes (an array), found none'
    refused '"AAAA"' 'expected an array in the format .npy'
    run "$MOEFW" trace import tgi bad.jsonl bytes -o bad.trace
    [[ "$status" -eq 2 && "$output" == *"expected vllm, sglang or megatron"* ]]
}
