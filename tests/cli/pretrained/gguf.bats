# moefw export gguf and import FILE.gguf: a run becomes a GGUF file and a file a run; what GGUF cannot say is refused with the
# reason, status 3, and no file.

setup_file() {
    export OMP_WAIT_POLICY=passive
    export MOE="$srcdir/tests/golden/pretrained/mixtral" DENSE="$srcdir/tests/golden/pretrained/gpt2"
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" import "$MOE/hf" -o run -q -t 1 >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp -r "$BATS_FILE_TMPDIR/run" run
}

# refused RUN TEXT: the export is refused with one line that has the text, and no file is left
refused() {
    run "$MOEFW" export gguf "$1" -o no.gguf
    [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [[ "$output" == *"$2"* ]] && [ ! -e no.gguf ] &&
        [ ! -e no.gguf.tmp ] && return
    echo "status $status, expected 3 and one line with: $2"
    echo "$output"
    return 1
}

@test "-o names a file or a folder, and what is there is never changed" {
    run "$MOEFW" export gguf run -o new.gguf
    [ "$status" -eq 0 ]
    [ "$output" = new.gguf ]
    [ "$(head -c 4 new.gguf)" = GGUF ]
    [ "$(od -An -t u4 -j 4 -N 4 new.gguf | tr -d ' ')" = 3 ]
    run "$MOEFW" export gguf run -o folder
    [ "$status" -eq 0 ]
    [ "$output" = folder/model.gguf ]
    cmp new.gguf folder/model.gguf
    run "$MOEFW" export gguf run -o folder
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: folder/model.gguf: exists already; expected a new file" ]
    touch file
    run "$MOEFW" export gguf run -o file
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: file: is a file; expected a folder, or a new file that ends in .gguf" ]
    run "$MOEFW" export gguf run
    [ "$status" -eq 2 ]
    [[ "$output" == *"wants -o FILE.gguf, a new file, or -o FOLDER"* ]]
    touch other.gguf.tmp
    run "$MOEFW" export gguf run -o other.gguf
    [ "$status" -eq 2 ]
    [ -e other.gguf.tmp ]
    rm new.gguf
    run "$MOEFW" export gguf run -o new.gguf --json
    [ "$output" = '{"export":"new.gguf"}' ]
}

@test "--dtype: f32 takes twice the bytes of bf16 and f16" {
    for type in f32 f16 bf16; do
        "$MOEFW" export gguf run -o $type.gguf --dtype $type -q
        eval "$type=$(wc -c <$type.gguf)"
    done
    "$MOEFW" export gguf run -o stored.gguf -q
    cmp bf16.gguf stored.gguf
    [ "$f16" -eq "$bf16" ]
    [ $((f32 * 10)) -gt $((bf16 * 18)) ]
    run "$MOEFW" export gguf run -o other.gguf --dtype int4
    [ "$status" -eq 2 ]
}

@test "adapters are merged, other routers and changed settings are refused" {
    small=(--set data.path='builtin:topics?bytes=20000' --set model.seq=32 --set data.format=text)
    "$MOEFW" train run/config.ini -q -t 1 --out tuned "${small[@]}" --set train.from=run --steps 1 \
        --set train.eval_batches=1 --set train.batch=1 --set adapter.l.plugin=lora \
        --set adapter.l.at=attention.q --set train.freeze='*' --set train.lr=0.1 --set train.warmup=0
    "$MOEFW" export gguf tuned -o tuned.gguf
    "$MOEFW" export gguf tuned -o plain.gguf --unmerged
    "$MOEFW" export gguf run -o run.gguf
    cmp plain.gguf run.gguf
    cmp -s tuned.gguf run.gguf && false
    "$MOEFW" swap run --router mlp:hidden=8 --batches 1 -o swapped -q --data "$MOE/hf/tokenizer.json" >&2
    refused swapped "router.plugin = mlp cannot be said in the form of mixtral: its config.json means linear"
    sed -i 's/^renormalize = yes/renormalize = no/' run/config.ini
    refused run "moe.renormalize = no cannot be said in the form of mixtral: its config.json means yes"
    rm -r run/pretrained
    sed -i '/^from = /d' run/config.ini # the run that this one is a copy of
    refused run "moe.renormalize = no cannot be said in any published form: the nearest, mixtral, means yes; 'moefw export hf --with-code' writes a folder with its own code"
}

@test "--router linear fits the family's router to a swapped one, and tells the loss" {
    data="$MOE/hf/tokenizer.json"
    "$MOEFW" swap run --router mlp:hidden=16 --match 2 --layers 1 --batches 1 -o swapped -q --data "$data" >&2
    refused swapped "router.swap1.plugin = mlp cannot be said"
    run "$MOEFW" export gguf swapped -o fitted.gguf --router linear --match 1 --data "$data"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [[ "${lines[0]}" =~ ^"router linear fitted on 1 batches: loss "[0-9.]+" -> "[0-9.]+", KL of predictions "[0-9.]+$ ]]
    [ "${lines[1]}" = fitted.gguf ]
    run "$MOEFW" export hf swapped -o fitted --router linear --match 8 --json
    [ "$status" -eq 0 ]
    [[ "$output" == '{"export":"fitted","router":"linear","match":8,"loss_before":'*'"loss_after":'*'"kl_next_token":'*'}' ]]
    diff <(ls fitted) <(echo checksums.xxh128; ls "$MOE/hf")
    few=$(sed 's/.*"kl_next_token"://; s/}//' <<<"$output")
    run "$MOEFW" export hf swapped -o more --router linear --match 128 --json
    more=$(sed 's/.*"kl_next_token"://; s/}//' <<<"$output")
    awk -v few="$few" -v more="$more" 'BEGIN { exit !(more < few) }'
    "$MOEFW" import fitted -o again -q
    # a router that has a form is not fitted
    run "$MOEFW" export hf run -o same --router linear
    [ "$output" = same ]
    cmp same/model-00001-of-00005.safetensors "$MOE/hf/model-00001-of-00005.safetensors"
    run "$MOEFW" export hf run -o no --router mlp
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: --router: expected linear, found 'mlp'" ]
    run "$MOEFW" export hf swapped -o no --router linear --data missing
    [ "$status" -eq 3 ]
    [ -z "$(ls | grep -E 'no|router$|tmp')" ]
}

@test "a run without a tokenizer gives a file without one" {
    cp -r "$MOE/hf" folder
    chmod -R u+w folder
    rm folder/tokenizer*
    "$MOEFW" import folder -o bare -q >&2
    "$MOEFW" export gguf bare -o bare.gguf
    grep -aq no_vocab bare.gguf
    run grep -ac tokenizer.ggml.tokens bare.gguf
    [ "$output" = 0 ]
}

@test "what an architecture cannot say is refused by its name" {
    [ -n "$MOEFW_PRETRAINED" ] || skip "MOEFW_PRETRAINED names no reference set"
    tiny() { "$MOEFW" import "$MOEFW_PRETRAINED/tiny/$1/hf" -o "$1" -q >&2; }
    tiny bert
    refused bert "models of the family bert are not written as GGUF; expected mixtral, llama, "
    tiny olmoe
    refused olmoe "clip_qkv cannot be said in GGUF: programs would compute without this limit"
    tiny gpt_oss
    refused gpt_oss "swiglu_limit cannot be said in GGUF: programs always limit to 7"
    tiny qwen3_moe
    refused qwen3_moe "a model with dense blocks cannot be said in GGUF"
    tiny deepseek_v2
    refused deepseek_v2 "q_lora_rank = null cannot be said in GGUF"
    tiny deepseek_v2_groups
    refused deepseek_v2_groups "topk_method = group_limited_greedy cannot be said in GGUF"
    tiny deepseek_v3
    refused deepseek_v3 "mscale other than mscale_all_dim cannot be said in GGUF"
    tiny qwen2_moe_gptq
    refused qwen2_moe_gptq "GGUF has no form for it; --dtype f16, bf16 or f32 writes the values"
    "$MOEFW" export gguf qwen2_moe_gptq -o gptq.gguf --dtype f16
    # keys of config.json that change what the model computes
    edit() { # edit NAME OLD NEW TEXT
        rm -rf folder changed
        cp -r "$MOEFW_PRETRAINED/ggsrc/$1/hf" folder
        chmod -R u+w folder
        grep -q "$2" folder/config.json
        sed -i "s/$2/$3/" folder/config.json
        "$MOEFW" import folder -o changed -q >&2
        refused changed "$4"
    }
    edit qwen2_moe '"norm_topk_prob": false' '"norm_topk_prob": true' "moe.renormalize = yes cannot be said"
    edit qwen3_moe '"norm_topk_prob": true' '"norm_topk_prob": false' "moe.renormalize = no cannot be said"
    edit olmoe '"norm_topk_prob": false' '"norm_topk_prob": true' "moe.renormalize = yes cannot be said"
    edit deepseek_v3 '"rms_norm_eps": 1e-06' '"rms_norm_eps": 1e-05' "rms_norm_eps cannot be said"
    edit deepseek_v3 '"rope_interleave": true' '"rope_interleave": false' "rope_interleave = false"
    edit deepseek_v3 '"mscale_all_dim": 1.0' '"mscale_all_dim": 0' "yarn without mscale_all_dim"
    edit gpt_oss '"swiglu_alpha": 1.702' '"swiglu_alpha": 1.5' "swiglu_alpha cannot be said"
    edit gpt_oss '"full_attention"' '"sliding_attention"' "layer_types cannot be said"
    edit qwen2_moe '"rope_scaling": null' '"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32}' \
        "model.rope_scaling = llama3 cannot be said in GGUF: only the architecture llama"
}

# loss RUN: of a run on the source of this test
loss() {
    "$MOEFW" eval "$1" --data "$BATS_TEST_FILENAME" --batches 2 -t 1 --json | sed 's/.*"task_loss":\([-0-9.]*\).*/\1/'
}

@test "a file is imported, computes the same, and is written again as it was" {
    "$MOEFW" import "$DENSE/hf" -o dense -q -t 1
    for name in run dense; do
        "$MOEFW" export gguf "$name" -o "$name.gguf" -q
        "$MOEFW" import "$name.gguf" -o "again/$name" -q -t 1
        [ "$(ls -A again)" = "$(ls again)" ]
        awk -v a="$(loss "$name")" -v b="$(loss "again/$name")" 'BEGIN { exit !(a > 1 && (a - b) ^ 2 < 1e-12) }'
        "$MOEFW" tokenize encode "$name/tokenizer.json" "$BATS_TEST_FILENAME" >"$name.ids" || continue
        "$MOEFW" tokenize encode "again/$name/tokenizer.json" "$BATS_TEST_FILENAME" | cmp - "$name.ids"
    done
    "$MOEFW" export gguf again/dense -o twice.gguf -q
    tail -c 20000 twice.gguf | cmp - <(tail -c 20000 dense.gguf)
    # without -o the run has the name of the file, and nothing else is left
    "$MOEFW" import dense.gguf -q -t 1
    [ "$(ls -A runs)" = dense-1 ]
}

@test "digits that are cut apart have a name" {
    cp -r "$DENSE/hf" folder
    rm folder/vocab.json folder/merges.txt
    sed -i '/"pre_tokenizer": {/,/}/c "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},' folder/tokenizer.json
    "$MOEFW" import folder -o digits -q -t 1
    "$MOEFW" export gguf digits -o digits.gguf -q
    grep -aq starcoder digits.gguf
    printf 'in 1999, 24,000 of ٣٤٥' >text
    "$MOEFW" tokenize encode folder/tokenizer.json text >ids
    "$MOEFW" import digits.gguf -o again -q -t 1
    "$MOEFW" tokenize encode again/tokenizer.json text | cmp - ids
    LC_ALL=C sed 's/starcoder/starcarts/' digits.gguf >carts.gguf
    run "$MOEFW" import carts.gguf -o new
    [ "$status" -eq 3 ]
    [[ "$output" == *"tokenizer.ggml.pre = 'starcarts': expected gpt-2, olmo, starcoder, smollm, refact, qwen2, "* ]]
}

@test "a tokenizer without a form in GGUF is refused, --no-tokenizer writes the weights alone" {
    cp -r "$DENSE/hf" folder
    rm folder/vocab.json folder/merges.txt
    sed -i '/"pre_tokenizer": {/,/}/c "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Isolated"}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]},' folder/tokenizer.json
    "$MOEFW" import folder -o points -q -t 1
    refused points "the tokenizer cannot be said in GGUF: programs know no name for its pre-tokenizer; --no-tokenizer writes the weights alone"
    "$MOEFW" export gguf points --no-tokenizer -o alone.gguf -q
    grep -aq no_vocab alone.gguf
    "$MOEFW" import alone.gguf -o again -q -t 1
    run "$MOEFW" quantize again -o four
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: again: no model folder belongs to this run or to one that it began with; expected a run of moefw import FOLDER, or one trained from it ('moefw export hf again -o FOLDER' writes a folder)" ]
    "$MOEFW" export gguf run --no-tokenizer -o other.gguf
    run grep -ac tokenizer.ggml.tokens other.gguf
    [ "$output" = 0 ]
}

@test "a file that cannot be read is refused by its name, and nothing is left" {
    "$MOEFW" export gguf run -o run.gguf -q
    head -c 3000 run.gguf >cut.gguf
    run "$MOEFW" import cut.gguf -o new
    [ "$status" -eq 3 ]
    [[ "$output" == "moefw: cut.gguf: "* ]]
    [ ! -e new ]
    [ -z "$(ls -d .gguf-* 2>/dev/null)" ]
    run "$MOEFW" import nowhere.gguf
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: nowhere.gguf: there is no such file" ]
    LC_ALL=C sed 's/\(general.architecture............\)llama/\1bloom/' run.gguf >bloom.gguf
    run "$MOEFW" import bloom.gguf -o new
    [ "$status" -eq 3 ]
    [[ "$output" == *"architecture 'bloom' is not imported from GGUF; expected llama, qwen2moe"* ]]
}
