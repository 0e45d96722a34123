# moefw export hf and gguf of runs that were not imported: the published form that can say the model is found, the
# folder that is written is imported again, and the loss is the same; what no form can say is refused by its option.

setup_file() {
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || exit 1
    # 3,000 bytes of words, signs, digits and characters beyond ASCII
    for i in $(seq 60); do
        echo "Line $i: the naïve cat, $((i * i * 37)) times; \"größer\"  than -- Ωmega..."
    done >text
    cat >small.ini <<'INI'
[model]
dim = 32
layers = 2
heads = 4
seq = 32
[moe]
experts = 4
top_k = 2
[router]
plugin = linear
[expert]
plugin = swiglu
hidden = 24
[data]
path = builtin:topics?bytes=20000
tokenizer = byte
[train]
steps = 2
batch = 2
lr = 0.01
eval_batches = 2
log_every = 1
INI
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp "$BATS_FILE_TMPDIR/text" "$BATS_FILE_TMPDIR/small.ini" .
}

# made KEY=VALUE...: a run of the small model with these settings
made() {
    local args=()
    for set in "$@"; do args+=(--set "$set"); done
    rm -rf made
    "$MOEFW" train small.ini -q -t 1 --out made "${args[@]}"
}

# loss RUN BATCHES: the loss of a run on the text
loss() {
    "$MOEFW" eval "$1" --data text --batches "$2" -t 1 --json | sed 's/.*"task_loss":\([-0-9.e]*\).*/\1/'
}

# returns FAMILY [ARGUMENT...]: the run `made` is written as FAMILY, and the folder gives the same loss
returns() {
    local family="$1" before after
    shift
    rm -rf folder again
    "$MOEFW" export hf made -o folder -q "$@"
    grep -q "\"model_type\":\"$family\"" folder/config.json || { cat folder/config.json; return 1; }
    "$MOEFW" import folder -o again -q
    before=$(loss made 4) after=$(loss again 8) # an imported run has batches of one text
    awk -v a="$before" -v b="$after" 'BEGIN { exit !(a > 0 && a - b < 2e-6 && b - a < 2e-6) }' ||
        { echo "$family: loss $before, $after"; return 1; }
}

# names: the tensors of the folder, without the numbers of blocks and experts
names() {
    head -c 65536 folder/model.safetensors | tr '{,' '\n\n' | sed -n 's/^"\([a-z][^"]*\)":$/\1/p' |
        grep -v -e dtype -e shape -e offsets | sed 's/\.[0-9][0-9]*\./.N./g' | sort -u
}

# refused TEXT [ARGUMENT...]: the export of `made` is refused with one line
refused() {
    local text="$1"
    shift
    run "$MOEFW" export hf made -o none "$@"
    [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [ ! -e none ] && [[ "$output" == "moefw: $text" ]] && return
    echo "status $status, expected: $text"
    echo "$output"
    return 1
}

@test "a model with experts: mixtral, its tensors, and the files beside them" {
    made
    returns mixtral
    diff <(names) - <<'LIST'
lm_head.weight
model.embed_tokens.weight
model.layers.N.block_sparse_moe.experts.N.w1.weight
model.layers.N.block_sparse_moe.experts.N.w2.weight
model.layers.N.block_sparse_moe.experts.N.w3.weight
model.layers.N.block_sparse_moe.gate.weight
model.layers.N.input_layernorm.weight
model.layers.N.post_attention_layernorm.weight
model.layers.N.self_attn.k_proj.weight
model.layers.N.self_attn.o_proj.weight
model.layers.N.self_attn.q_proj.weight
model.layers.N.self_attn.v_proj.weight
model.norm.weight
LIST
    diff <(ls folder) - <<'LIST'
README.md
checksums.xxh128
config.json
generation_config.json
model.safetensors
tokenizer.json
tokenizer_config.json
LIST
    grep -q '^| seed | 1 |$' folder/README.md
    grep -q '^| steps | 2 |$' folder/README.md
    grep -q '^| validation loss' folder/README.md
    grep -q '^| data | builtin:topics' folder/README.md
    "$MOEFW" train small.ini -q -t 1 --out overlaps --set train.eval_context=8
    "$MOEFW" export hf overlaps -o card -q
    grep -q '^| validation loss.*, in windows of 32 that overlap by 8 ' card/README.md
    # and again: the second folder is the first, bit for bit
    "$MOEFW" export hf again -o second -q
    cmp folder/model.safetensors second/model.safetensors
    cmp folder/config.json second/config.json
    # other types, and no tokenizer
    "$MOEFW" export hf made -o half --dtype bf16 --no-tokenizer -q
    grep -q '"torch_dtype":"bfloat16"' half/config.json
    [ ! -e half/tokenizer.json ]
    [ ! -e half/tokenizer_config.json ]
    run "$MOEFW" export gguf made -o made.gguf
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning: a tokenizer of kind byte cannot be said in GGUF; the file has none"* ]]
    [ "$(head -c 4 made.gguf)" = GGUF ]
}

@test "rope that turns neighbours: rows of queries and keys are written apart; halves stay" {
    made model.rope_half=yes
    returns mixtral
    made model.rope_half=no model.kv_heads=2 model.qk_norm=head
    returns qwen3_moe
    made model.rope_half=no model.qk_norm=all moe.renormalize=no
    returns olmoe
    made model.rope_half=no model.moe_every=0 model.attention_bias=yes
    returns qwen2
    made model.rope_half=no model.moe_every=0
    returns llama
}

@test "models with experts find their forms" {
    made model.qk_norm=head model.moe_every=2 model.ffn_hidden=40
    returns qwen3_moe
    made model.attention_bias=yes moe.shared_experts=1 moe.shared_gate=yes moe.shared_hidden=20 moe.renormalize=no
    returns qwen2_moe
    made router.plugin=sigmoid_bias router.scale=1.5 moe.shared_experts=2
    returns glm4_moe
    made router.plugin=sigmoid_bias moe.shared_experts=1 model.latent=16 model.head_dim=12 model.rope_dims=4 model.value_dim=8 model.dense_layers=0
    returns deepseek_v3
    made moe.shared_experts=1 model.latent=16 model.latent_q=12 model.head_dim=12 model.rope_dims=4 moe.renormalize=no moe.gate_scale=2
    returns deepseek_v2
    made model.rope_half=yes model.sinks=yes model.attention_bias=yes model.attention_out_bias=yes router.bias=yes \
        expert.bias=yes expert.shift=1 expert.limit=7 expert.alpha=1.702 model.window=8 model.window_layers=0
    returns gpt_oss
    made model.norm_place=output model.qk_norm=all
    returns flex_olmo
    made model.window=8
    returns mixtral
    made model.rope_half=yes model.rope_scaling=yarn model.rope_factor=4 model.rope_original=16
    returns mixtral
    # the form has a place for the bias of the choice, and one without it is refused
    made router.plugin=linear controller.expert_bias.rate=0.1
    run "$MOEFW" export hf made -o none
    [ "$status" -eq 3 ]
    [[ "$output" == "moefw: layers."[01]".moe.select_bias is not 0, and the form of mixtral has no tensor for it" ]]
}

@test "dense models find theirs" {
    made model.moe_every=0 model.tie_embeddings=yes
    returns llama
    made model.moe_every=0 model.qk_norm=head model.kv_heads=1
    returns qwen3
    made model.moe_every=0 model.window=8
    returns mistral
    made model.moe_every=0 model.norm=layernorm model.position=learned model.attention_bias=yes model.attention_out_bias=yes \
        model.ffn_activation=gelu_tanh model.tie_embeddings=yes
    returns gpt2
    [ "$(names | head -n 1)" = transformer.h.N.attn.c_attn.bias ]
    made model.task=mlm model.moe_every=0 model.norm=layernorm model.norm_place=post model.position=learned model.token_types=2 \
        model.embed_norm=yes model.attention_bias=yes model.attention_out_bias=yes model.ffn_activation=gelu \
        model.tie_embeddings=yes data.tokenizer=wordpiece
    "$MOEFW" export hf made -o bert -q
    grep -q '"architectures":\["BertModel"\]' bert/config.json
    "$MOEFW" import bert -o bert-again -q
}

@test "what no form can say is refused by its option, and what the nearest means" {
    made model.position=sinusoidal
    refused "model.position = sinusoidal cannot be said in any published form: the nearest, mixtral, means rope; 'moefw export hf --with-code' writes a folder with its own code"
    made expert.plugin=mlp
    refused "expert.plugin = mlp cannot be said in any published form: the nearest, mixtral, means swiglu; 'moefw export hf --with-code' writes a folder with its own code"
    made moe.capacity_factor=1.5
    refused "moe.capacity_factor = 1.5 cannot be said in any published form: the nearest, mixtral, means 0; 'moefw export hf --with-code' writes a folder with its own code"
    made router.plugin=sigmoid_bias
    refused "moe.shared_experts = 0 cannot be said in any published form: the nearest, glm4_moe, means 1 or more; 'moefw export hf --with-code' writes a folder with its own code"
    made
    refused "model.qk_norm = none cannot be said in the form of olmoe: it means all" --as olmoe
    run "$MOEFW" export hf made -o none --as mixtrel
    [ "$status" -eq 2 ]
    [[ "$output" == *"--as: expected one of mixtral, "*"found 'mixtrel'; nearest: 'mixtral'" ]]
    run "$MOEFW" export peft made -o none
    [ "$status" -eq 3 ]
    for _ in 1 2 3 4 5; do echo "<unk>a <unk>b <unk>c <unk>d some words more"; done >names
    "$MOEFW" tokenize train bpe names -o names.json -q
    made data.tokenizer=$PWD/names.json data.path=names data.format=text
    run "$MOEFW" export hf made -o plain -q
    [ "$status" -eq 0 ]
    [[ "$output" == "moefw: warning: made: the tokenizer cannot be said as tokenizer.json: a token has the name of a special token; the folder has none"* ]]
    [ -e plain/model.safetensors ]
    [ ! -e plain/tokenizer.json ]
    [ ! -e plain/tokenizer_config.json ]
    "$MOEFW" tokenize train bpe text -o dict.json --trainer vocab_dict -q
    made data.tokenizer=$PWD/dict.json data.path=text data.format=text
    run "$MOEFW" export hf made -o dict -q
    [[ "$output" == "moefw: warning: made: the tokenizer cannot be said as tokenizer.json: a symbol of a merge has no id; the folder has none"* ]]
    "$MOEFW" export hf made -o alone --no-tokenizer -q
}

# logits RUN TOKENS: the sum of the run's logits, and its loss, on a file of golden ids
logits() {
    "$MOEFW" eval "$1" --tokens "$srcdir/tests/golden/pretrained/$2/golden.safetensors"
}

@test "upcycled, swapped and imported runs" {
    cp -r "$srcdir/tests/golden/pretrained/families/mistral/hf" dense
    "$MOEFW" import dense -o made --upcycle experts=4,top_k=2 -q
    "$MOEFW" export hf made -o folder -q
    grep -q '"model_type":"mixtral"' folder/config.json
    "$MOEFW" import folder -o again -q
    [ "$(logits made families/mistral)" = "$(logits again families/mistral)" ]
    # an imported model in the form of another family
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o run -q
    "$MOEFW" export hf run -o granite --as granitemoe -q
    grep -q '"model_type":"granitemoe"' granite/config.json
    "$MOEFW" import granite -o there -q
    [ "$(logits run mixtral)" = "$(logits there mixtral)" ]
    cmp run/tokenizer.json there/tokenizer.json
    # its router swapped for that of DeepSeek-V3, which no form without a shared expert has
    "$MOEFW" swap run --router sigmoid_bias --batches 1 -o swapped -q --data text
    run "$MOEFW" export hf swapped -o none
    [ "$status" -eq 3 ]
    [[ "$output" == *"router.plugin = sigmoid_bias cannot be said in the form of mixtral"* ]]
}

# ids FILE: the ids of the text
ids() {
    "$MOEFW" tokenize encode "$1" text
}

@test "tokenizer.json gives the ids of the run's own tokenizer" {
    for kind in byte char bpe bpe_bytes wordpiece; do
        "$MOEFW" tokenize train "$kind" text -o own.json -q
        made data.tokenizer=$PWD/own.json data.path=text data.format=text
        rm -rf folder
        "$MOEFW" export hf made -o folder -q
        diff <(ids own.json) <(ids folder/tokenizer.json) || { echo "$kind"; return 1; }
        [ "$(ids own.json | wc -w)" -gt 100 ]
        rm own.json
    done
}
