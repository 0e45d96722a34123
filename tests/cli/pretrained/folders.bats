# moefw import, export hf, and eval --tokens: an imported model is a run as any other, and folders that
# are damaged or dangerous are refused with status 3 and one line, before a run is made.

setup_file() {
    . "$srcdir/tests/cli/pretrained/imported.bash"
    imported_file
}

setup() {
    . "$srcdir/tests/cli/pretrained/imported.bash"
    imported_setup
}

# refused TEXT: the folder is refused with one line that has the text, and no run is left
refused() {
    run "$MOEFW" import folder -o new
    [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [[ "$output" == *"$1"* ]] && [ ! -e new ] && return
    echo "status $status, expected 3 and one line with: $1"
    echo "$output"
    return 1
}

@test "an imported model is a run: ckpt, config, eval, trace, train, and training from it" {
    run "$MOEFW" import --json "$MOE/hf" -o new
    [ "$status" -eq 0 ]
    [[ "$output" == *'"tokenizer":true,"run":"new"}' ]]
    [[ "$output" == '{"family":"mixtral","params":386368,"params_active":165184,"dtype":"BF16","tensors":{"used":65,"skipped":0,"unknown":0},'*'"run":"new"}' ]]
    cmp new/ckpt/step-0/model.safetensors run/ckpt/step-0/model.safetensors
    "$MOEFW" ckpt verify run
    "$MOEFW" config check run
    small=(--set data.path='builtin:topics?bytes=20000' --set model.seq=32 --set data.format=text)
    "$MOEFW" train run/config.ini -q -t 1 --out trained "${small[@]}" --set train.from=run --steps 2 \
        --set train.eval_batches=1 --set train.batch=2
    "$MOEFW" export hf trained -o back
    rm -r back
    sed -i 's/^keep_best = no/keep_best = yes/' trained/config.ini
    mv trained/ckpt trained/best
    "$MOEFW" export hf trained/best -o back
    "$MOEFW" import back -o again -q
    "$MOEFW" eval again --tokens "$MOE/golden.safetensors" --save after
    "$MOEFW" eval run --tokens "$MOE/golden.safetensors" --save before
    cmp before after && false
    diff <(ls back) <(echo checksums.xxh128; ls folder)
}

@test "the tokenizer of the folder is that of the run; without one, only ids are read" {
    run "$MOEFW" generate run --prompt All -n 8 --temp 0 -q
    [ "$status" -eq 0 ]
    [[ "$output" == All* ]]
    rm folder/tokenizer.json
    for part in tokenizer_config.json vocab.json merges.txt; do
        rm -f folder/tokenizer_config.json
        echo '{}' >"folder/$part"
        refused "folder: no tokenizer, but a part of one ($part): expected tokenizer.json, vocab.json with merges.txt, vocab.txt, tokenizer.model, tiktoken.model or tekken.json; --no-tokenizer imports the weights alone"
        rm "folder/$part"
    done
    run "$MOEFW" import folder -o new
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == *"; no tokenizer" ]]
    run "$MOEFW" generate new --prompt All
    [ "$status" -ne 0 ]
    [ "$output" = "moefw: new: the run has no tokenizer to read the prompt with" ]
    run "$MOEFW" eval new --data folder/config.json
    [ "$status" -eq 3 ]
    # one that cannot be read is an error, unless nobody wants it
    rm -r new
    echo '{"model":{"type":"Chars"}}' >folder/tokenizer.json
    refused 'folder/tokenizer.json: "model": "Chars": expected BPE, WordPiece, Unigram or WordLevel; --no-tokenizer imports the weights alone'
    run "$MOEFW" import folder --no-tokenizer -o other
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == *"; no tokenizer" ]]
    rm folder/tokenizer.json
    touch folder/tokenizer.model
    refused "tokenizer.model: expected a model of sentencepiece; --no-"
    cp "$MOE/hf/tokenizer.json" folder
    "$MOEFW" import folder --no-tokenizer -o none -q
    run "$MOEFW" generate none --prompt All
    [ "$status" -ne 0 ]
    run "$MOEFW" import folder --no-tokenizer --onto run -o none
    [ "$status" -eq 2 ]
    [[ "$output" == *"--onto and --no-tokenizer exclude each other"* ]]
}

# greedy RUN N: the ids that the run writes without sampling
greedy() {
    rm -f ids
    "$MOEFW" generate "$1" --ids ids --begin 1,5 -n "$2" --temp 0 -q -t 1 && od -A n -v -t u2 ids | tr -s ' \n' ' '
}

@test "what ends a text: generation_config.json, or without that file config.json" {
    read -r _ _ first second _ <<<"$(greedy run 4)"
    [ "$first" != "$second" ]
    sed -i "s/\"eos_token_id\": 2/\"eos_token_id\": $second/" folder/config.json
    # a file that says nothing of it, or null, is asked alone, as transformers does
    for says in '{"max_new_tokens": 7}' '{"eos_token_id": null}' '{}'; do
        rm -rf some
        echo "$says" >folder/generation_config.json
        "$MOEFW" import folder -o some -q
        [[ "$(greedy some 4)" == *" $first $second"* ]] || { greedy some 4; false; }
    done
    rm folder/generation_config.json
    "$MOEFW" import folder -o none -q
    [[ "$(greedy none 4)" == " 1 5 $first "* ]] || { greedy none 4; false; }
    [[ "$(greedy none 4)" != *" $first $second"* ]]
    # generation_config.json is stronger
    echo "{\"eos_token_id\": $first}" >folder/generation_config.json
    "$MOEFW" import folder -o strong -q
    [[ "$(greedy strong 4)" != *" 1 5 $first"* ]]
    # without that file its other keys count in config.json, too
    rm folder/generation_config.json
    sed -i '1s/{/{"do_sample": true, "temperature": 0.25, "max_new_tokens": 3, "eos_token_id": [7, 9],/; s/^ *"eos_token_id": [0-9]*,//' folder/config.json
    "$MOEFW" import folder -o keys -q
    run "$MOEFW" generate keys -p All --json -t 1
    [[ "$output" == *'"max_tokens":3,"temperature":0.25,"top_k":50,"top_p":1,'* ]]
    sed -i 's/"temperature": 0.25/"temperature": "hot"/' folder/config.json
    refused "folder/config.json: temperature: expected a number from 0 to 100"
}

@test "a whole model beside an index of another form: the file is read, and the index does not come back" {
    "$MOEFW" import "$srcdir/tests/golden/pretrained/qwen2_moe/hf" -o other -q
    rm -r folder
    cp -r "$srcdir/tests/golden/pretrained/qwen2_moe/hf" folder
    chmod -R u+w folder
    cp "$MOE"/hf/*-of-* "$MOE/hf/model.safetensors.index.json" folder
    run "$MOEFW" import folder -o new
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == *"folder: model.safetensors is read, as transformers does; model.safetensors.index.json and what it names beside it are not" ]]
    g="$srcdir/tests/golden/pretrained/qwen2_moe/golden.safetensors"
    "$MOEFW" eval new --tokens "$g" --save a
    "$MOEFW" eval other --tokens "$g" --save b
    cmp a b
    rm folder/*-of-*
    "$MOEFW" import folder -o again -q
    "$MOEFW" export hf again -o back -q
    [ ! -e back/model.safetensors.index.json ]
    "$MOEFW" import back -o last -q
}

@test "HTML pages in the place of files are called so" {
    printf '\n<!DOCTYPE HTML>\n<html><head><title>Sign in</title></head></html>\n' >page
    for file in model-00002-of-00005.safetensors model.safetensors.index.json tokenizer.json config.json; do
        cp -f page "folder/$file"
        refused "folder/$file: an HTML page, not the file itself"
        cp -f "$MOE/hf/$file" folder
    done
    printf 'version https://hawser.github.com/spec/v1\noid sha256:%064d\nsize 91\n' 0 >folder/model-00002-of-00005.safetensors
    refused "folder/model-00002-of-00005.safetensors: a pointer of Git LFS"
}

@test "pointers of Git LFS in the place of files are called so" {
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 91\n' 0 >pointer
    for file in model-00002-of-00005.safetensors model.safetensors.index.json tokenizer.json config.json generation_config.json; do
        cp -f pointer "folder/$file"
        refused "folder/$file: a pointer of Git LFS, not the file itself, which was not fetched; 'git lfs pull' in its folder fetches it"
        cp -f "$MOE/hf/$file" folder
    done
    run "$MOEFW" data info pointer
    [ "$status" -eq 3 ]
    [[ "$output" == *"pointer: a pointer of Git LFS, not the file itself"* ]]
}

@test "GPT-2 is trained on windows below n_positions, and its table of positions comes back" {
    "$MOEFW" import "$DENSE/hf" -o dense -q
    "$MOEFW" train dense/config.ini -q -t 1 --out trained --set data.path='builtin:topics?bytes=20000' \
        --set data.format=text --set model.seq=16 --set train.from=dense --steps 1 --set train.batch=2 \
        --set train.eval_batches=1 --set 'train.freeze=*' --set adapter.lora.plugin=lora --set adapter.lora.at=ffn.*
    "$MOEFW" export hf trained --unmerged -o back -q
    cmp back/model.safetensors "$DENSE/hf/model.safetensors"
    run "$MOEFW" config check dense --set model.seq=65
    [[ "$output" == *"'positions' in [model]: expected at least seq (65), found 64"* ]]
}

@test "lora: each name of at must be a linear layer; biases of experts are none" {
    small=(--set data.path='builtin:topics?bytes=20000' --set model.seq=16 --set data.format=text --steps 1
        --set train.batch=1 --set train.eval_batches=1 --set 'train.freeze=*' --set adapter.lora.plugin=lora -q -t 1)
    run "$MOEFW" train run/config.ini --out new "${small[@]}" --set train.from=run --set 'adapter.lora.at=attention.q, attention.qq'
    [ "$status" -eq 2 ]
    [[ "$output" == *"at: no linear layer of this model is called 'attention.qq'; expected of attention.q, "* ]]
    run "$MOEFW" train run/config.ini --out new "${small[@]}" --set train.from=run --set 'adapter.lora.at=expert.*, ffn.*'
    [ "$status" -eq 2 ]
    [[ "$output" == *"is called 'ffn.*'"* ]]
    "$MOEFW" train default --out biased "${small[@]}" --set expert.bias=yes --set 'adapter.lora.at=expert.*' --set model.layers=1 \
        --set model.dim=16 --set model.heads=2 --set expert.hidden=8 --set train.freeze= --set train.eval_context=0
    grep -q '"step":1' biased/metrics.jsonl
}

@test "numbers that nobody needs as whole numbers, as transformers' no limit, leave the tokenizer as it is" {
    for number in 1000000000000000019884624838656 1e400 Infinity NaN 18446744073709551616; do
        echo "{\"model_max_length\": $number, \"eos_token\": \"</s>\"}" >folder/tokenizer_config.json
        sed -i "1s/{/{\"of_no_use\": $number,/" folder/config.json folder/generation_config.json
        rm -rf new
        run "$MOEFW" import folder -o new
        [ "$status" -eq 0 ] || { echo "$number: $output"; false; }
        [[ "$output" != *tokenizer* ]]
        "$MOEFW" generate new -p "To be" -n 2 -q
        cp "$MOE/hf/config.json" "$MOE/hf/generation_config.json" folder
        chmod u+w folder/*
    done
    rm -r new
    sed -i 's/"rope_theta": [0-9.e+]*/"rope_theta": 1e400/' folder/config.json
    refused "config.json: rope_theta: expected a number"
}

@test "generate --ids writes the ids of texts, also without a tokenizer, as data of format bin" {
    rm folder/tokenizer*
    "$MOEFW" import folder -o new -q
    "$MOEFW" generate new --ids ids.bin --begin 1,5 --samples 3 -n 30 --temp 0 -t 1
    [ "$(od -A n -v -t u2 ids.bin | tr -s ' ' '\n' | grep -c .)" -le 96 ]
    [[ "$(od -A n -v -t u2 ids.bin | head -n 1 | tr -s ' ')" == " 1 5 "* ]]
    run "$MOEFW" eval new --data ids.bin --json --set model.seq=16
    [ "$status" -eq 0 ]
    # wrong WHY ARGUMENT...: status 2 and the reason
    wrong() {
        why=$1
        shift
        run "$MOEFW" generate new "$@"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$why"* ]]
        [ ! -e none ]
    }
    wrong "exists already" --ids ids.bin --begin 1
    wrong "wants --begin" --ids none
    wrong "expected ids as 1,15,2, found '1,x'" --ids none --begin 1,x
    wrong "expected no --prompt with it" --ids none --begin 1 --prompt All
    wrong "--begin wants --ids" --begin 1
    run "$MOEFW" generate new --ids none --begin 512
    [ "$status" -eq 3 ]
    [ ! -e none ]
}

@test "a tokenizer with more ids than the model, and one whose text grows without bound" {
    new='{"id":512,"content":"<new>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}'
    sed -i 's/"added_tokens": *\[/&'"$new"',/' folder/tokenizer.json
    run "$MOEFW" import folder -o more
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == *"the tokenizer has ids up to 512, but vocab_size of config.json is 512: texts with"* ]]
    long=$(printf 'x%.0s' $(seq 1025))
    cat >folder/tokenizer.json <<END
{"model": {"type": "BPE", "vocab": {"a": 0, "x": 1}, "merges": []},
 "normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "$long"}}
END
    run "$MOEFW" tokenize encode folder/tokenizer.json folder/config.json
    [ "$status" -eq 3 ]
    [[ "$output" == *"Replace: a text could become more than 1024 times as long" ]]
}

@test "runs that began with one that is gone" {
    "$MOEFW" import folder -o base -q
    small=(--set data.path='builtin:topics?bytes=20000' --set model.seq=32 --set data.format=text)
    "$MOEFW" train base/config.ini -q -t 1 --out child "${small[@]}" --set train.from=base --steps 1 \
        --set train.eval_batches=1 --set train.batch=1
    rm -r base
    run "$MOEFW" export hf child -o back
    [ "$status" -eq 3 ]
    [[ "$output" == *"the run that it began with, "*"base, is no longer there"* ]]
    "$MOEFW" swap child --router mlp:hidden=4 --batches 1 -o swapped -q >&2
    [ ! -e swapped/pretrained ]
}

@test "generation_config.json gives the defaults of generate; the command line is stronger" {
    settings() { # settings RUN OPTION...: the numbers that generate uses
        "$MOEFW" generate "$@" -p All --json -t 1 | grep -o '"max_tokens".*"repeat_penalty":[0-9.]*'
    }
    [ "$(settings run -n 1)" = '"max_tokens":1,"temperature":0.8,"top_k":40,"top_p":0.95,"repeat_penalty":1' ]
    cat >folder/generation_config.json <<'END'
{"do_sample": true, "temperature": 0.5, "top_k": 7, "repetition_penalty": 1.25, "max_new_tokens": 3, "eos_token_id": [2, 300]}
END
    "$MOEFW" import folder -o new -q
    [ "$(settings new)" = '"max_tokens":3,"temperature":0.5,"top_k":7,"top_p":1,"repeat_penalty":1.25' ]
    [ "$(settings new --temp 0.9 -n 2 --top-p 0.5)" = '"max_tokens":2,"temperature":0.9,"top_k":7,"top_p":0.5,"repeat_penalty":1.25' ]
    "$MOEFW" export hf new -o back -q
    cmp folder/generation_config.json back/generation_config.json
    # every token ends a text: nothing is written
    first=$("$MOEFW" generate run --ids ids --begin 1,5 -n 1 --temp 0 -q && od -A n -v -t u2 ids | awk '{ print $NF }')
    echo "{\"do_sample\": false, \"eos_token_id\": [7, $first]}" >folder/generation_config.json
    "$MOEFW" import folder -o ended -q
    [[ "$(settings ended)" == '"max_tokens":200,"temperature":0,'* ]]
    "$MOEFW" generate ended --ids none --begin 1,5 -n 9 -q
    [ "$(wc -c <none)" -eq 4 ]
    for wrong in '{"temperature": "hot"}|temperature: expected a number from 0 to 100' '{"top_p": 2}|top_p: expected' \
        '{"eos_token_id": "x"}|eos_token_id: expected an id' '{"do_sample": 1}|do_sample: expected true or false' \
        '{"max_new_tokens": 1.5}|max_new_tokens: expected a whole number'; do
        rm -rf new
        echo "${wrong%|*}" >folder/generation_config.json
        refused "folder/generation_config.json: ${wrong#*|}"
    done
}

@test "export gives the folder back, and refuses models that the form cannot say" {
    run "$MOEFW" export hf run -o back
    [ "$status" -eq 0 ]
    [ "$output" = back ]
    for file in folder/*; do cmp "$file" "back/${file#folder/}"; done
    run "$MOEFW" export hf run -o back
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: back: exists already; expected a new folder" ]
    "$MOEFW" swap run --router mlp:hidden=8 --batches 1 -o swapped -q --data folder/tokenizer.json >&2
    run "$MOEFW" export hf swapped -o other
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: router.plugin = mlp cannot be said in the form of mixtral: its config.json means linear" ]
    "$MOEFW" eval swapped --tokens "$MOE/golden.safetensors" --gradients gradients
    # another number of experts a token has a form, but not this folder's
    sed -i 's/^top_k = 2/top_k = 3/' run/config.ini
    "$MOEFW" export hf run -o other -q
    grep -q '"num_experts_per_tok":3' other/config.json
    rm -r other
    # a setting that no key of the family means, but one of another family
    sed -i 's/^top_k = 3/top_k = 2/; s/^logit_scale = 1$/logit_scale = 2/' run/config.ini
    "$MOEFW" export hf run -o other -q
    grep -q '"model_type":"granitemoe".*"logits_scaling":0.5' other/config.json
    rm -r other
    # one of no family
    sed -i 's/^logit_scale = 2/logit_scale = 1/; s/^limit = 0$/limit = 3/; /^\[data\]/,/^\[/ s/^limit = 3/limit = 0/' run/config.ini
    run "$MOEFW" export hf run -o other
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: expert.limit = 3 cannot be said in the form of mixtral: its config.json means 0" ]
    [ ! -e other ]
    rm -r run/pretrained
    sed -i 's/^from = .*/from =/' run/config.ini # the import that it is a copy of
    run "$MOEFW" export hf run -o other
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: expert.limit = 3 cannot be said in any published form: the nearest, mixtral, means 0; 'moefw export hf --with-code' writes a folder with its own code" ]
}

@test "eval --tokens writes logits, hidden states, routing and gradients" {
    touch there
    for option in --save --gradients; do
        run "$MOEFW" eval run --tokens "$MOE/golden.safetensors" $option there
        [ "$status" -eq 2 ]
        [ "$output" = "moefw: there: exists already; expected a new file, or --force to replace it" ]
    done
    run "$MOEFW" eval run --tokens "$MOE/golden.safetensors" --save out --gradients back
    [ "$status" -eq 0 ]
    [ "$output" = "loss of the labels 6.633679 nats/token" ]
    for name in logits hidden.first hidden.last moe.0.logits moe.0.expert moe.1.gate; do
        grep -aq "\"$name\"" out
    done
    grep -aq '"layers.0.attention.qkv.weight"' back
    grep -aq '"model.layers.0.self_attn.q_proj.weight"' back
    run "$MOEFW" eval run --save out
    [ "$status" -eq 2 ]
    run "$MOEFW" eval run --tokens run/ckpt/step-0/model.safetensors --save other
    [ "$status" -eq 3 ]
    [[ "$output" == *"expected a tensor 'input_ids'" ]]
}

@test "eval --lines runs texts of a file, and bench routers takes the hidden states" {
    printf 'All the world\t1\n\nTo be, or not to be: that is the question\nA\n' >lines
    "$MOEFW" eval run --lines lines --length 12 --save padded -t 1
    "$MOEFW" eval run --tokens padded --save again -t 1 # the ids and the mask are in the file
    cmp padded again
    "$MOEFW" eval run --lines lines --count 1 --save one -t 1
    [ "$(wc -c <one)" -lt "$(wc -c <padded)" ]
    run "$MOEFW" bench routers --activations padded:hidden.last --routers linear --no-layer --repetitions 0 --json
    [[ "$output" == *'"d_model":64,"experts":8,"top_k":2,'* ]]
    some=$output
    run "$MOEFW" bench routers --activations padded:hidden.last --padding --routers linear --no-layer --repetitions 0 --json
    [[ "$output" == *'"d_model":64,'* ]]
    [ "$output" != "$some" ]
    run "$MOEFW" bench routers --activations padded:moe.0.expert --routers linear
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: padded: expected an F32 tensor 'moe.0.expert' of activations, [...,width]" ]
    # refused WHY ARGUMENT...: eval fails with status 2 and says why, and writes nothing
    wrong() {
        why=$1
        shift
        run "$MOEFW" eval "$@"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$why"* ]]
        [ ! -e none ]
    }
    wrong "expected at most 128 positions" run --lines lines --length 129 --save none
    wrong "found both" run --lines lines --tokens padded --save none
    wrong "--count wants --lines" run --tokens padded --count 2 --save none
    wrong "--gradients wants --tokens" run --lines lines --gradients none
    : >empty
    run "$MOEFW" eval run --lines empty --save none
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: empty: expected a text in each line, found none" ]
    run "$MOEFW" eval run --lines nowhere --save none
    [ "$status" -eq 3 ]
}

@test "tensors of other names, shapes and types, and lost ones, are named" {
    replace folder/model-00003-of-00005.safetensors layers.0.self_attn.o_proj layers.0.self_attn.x_proj
    refused "model-00003-of-00005.safetensors, but the index does not name it"
    replace folder/model.safetensors.index.json layers.0.self_attn.o_proj layers.0.self_attn.x_proj
    refused "tensor 'model.layers.0.self_attn.x_proj.weight' is unknown"
    cp "$MOE"/hf/model* folder
    # a tensor with the shape of its neighbour
    replace folder/config.json '"intermediate_size": 96' '"intermediate_size": 32'
    refused "block_sparse_moe.experts.0.w1.weight': expected shape [32,64], as config.json says, found [96,64]"
    cp "$MOE/hf/config.json" folder
    # a model with more blocks than the files
    replace folder/config.json '"num_hidden_layers": 2' '"num_hidden_layers": 3'
    refused "tensor 'model.layers.2.input_layernorm.weight' is missing"
    cp "$MOE/hf/config.json" folder
    # sizes that need more memory than there is, here 82 GB, are refused before any is taken
    replace folder/config.json '"vocab_size": 512' '"vocab_size": 9999999'
    replace folder/config.json '"hidden_size": 64' '"hidden_size": 2048'
    refused "tensor 'model.embed_tokens.weight': expected shape [9999999,2048]"
    replace folder/config.json '"hidden_size": 2048' '"hidden_size": 65536'
    refused "folder/config.json: settings:6: 'head_dim' in [model]: out of range"
}

@test "shards that are missing, cut off, damaged, or outside of the folder" {
    mv folder/model-00002-of-00005.safetensors away
    refused "folder/model-00002-of-00005.safetensors: there is no such file, but model.safetensors.index.json names it"
    head -c 100000 away >folder/model-00002-of-00005.safetensors
    refused "model-00002-of-00005.safetensors"
    mv away folder/model-00002-of-00005.safetensors
    cp folder/model.safetensors.index.json index
    for name in ../model-00001-of-00005.safetensors /etc/passwd sub/model.safetensors ..; do
        sed "s|\"model-00001-of-00005.safetensors\"|\"$name\"|" index >folder/model.safetensors.index.json
        refused "shard '$name': expected the name of a file in the folder"
    done
    sed 's|"model-00001-of-00005.safetensors"|"pytorch_model.bin"|' index >folder/model.safetensors.index.json
    refused "pytorch_model.bin is a pickle file"
    echo '{"weight_map":' >folder/model.safetensors.index.json
    refused "model.safetensors.index.json"
}

@test "a byte that changed is found by the checksums that an import and an export record" {
    "$MOEFW" export hf run -o back
    printf '\x01' | dd of=back/model-00004-of-00005.safetensors bs=1 seek=150000 conv=notrunc status=none
    mv folder intact
    mv back folder
    refused "folder/model-00004-of-00005.safetensors: the file was changed"
    rm folder/checksums.xxh128
    "$MOEFW" import folder -o new -q
    run "$MOEFW" import folder -o run
    [ "$status" -eq 3 ]
    [[ "$output" == *"folder/model-00004-of-00005.safetensors: the file was changed"* ]]
    run "$MOEFW" import intact -o run
    [ "$status" -eq 2 ]
    [[ "$output" == *"holds files already"* && "$output" != *"--resume"* ]]
}

@test "the folders of further modules that modules.json names come back, others do not" {
    mkdir folder/1_Pooling folder/2_Dense folder/onnx folder/.hidden outside
    head -c 3000 /dev/urandom | tee folder/{1_Pooling,2_Dense,onnx,.hidden}/config.json >outside/config.json
    echo '[{"path":""},{"path":"1_Pooling"},{"path":"2_Dense"},{"path":"3_Gone"},{"path":"../outside"},{"path":".hidden"},{"path":7},{}]' >folder/modules.json
    "$MOEFW" import folder -o new -q
    "$MOEFW" swap new --router linear --batches 1 --data builtin:topics -o swapped -q
    "$MOEFW" export hf swapped -o back
    for to in new/pretrained swapped/pretrained back; do
        diff -r folder/1_Pooling $to/1_Pooling
        diff -r folder/2_Dense $to/2_Dense
        [ "$(cd $to && echo */ .h*)" = "1_Pooling/ 2_Dense/ .h*" ]
    done
    "$MOEFW" import back -o again -q
    echo '[{"path":' >folder/modules.json
    "$MOEFW" import folder -o broken -q
    cmp folder/modules.json broken/pretrained/modules.json
    "$MOEFW" runs new --remove -y
    [ ! -e new ]
}

@test "the name of a file adds no line to the checksums" {
    cp folder/config.json $'folder/a\n00000000000000000000000000000000  b.json'
    refused "expected names of files on one line"
}

@test "folders of another form: pickle files, no weights, unknown families, quantised weights" {
    rm folder/model*
    refused "folder: expected model.safetensors or model.safetensors.index.json"
    touch folder/pytorch_model.bin
    refused "folder: pytorch_model.bin is a pickle file, which can run code when it is read"
    run "$MOEFW" import folder/pytorch_model.bin
    [ "$status" -eq 3 ]
    cp "$MOE"/hf/model* folder
    replace folder/config.json '"model_type": "mixtral"' '"model_type": "mixtrall"'
    refused "model_type: expected one of afmoe, aria_text, bert, "
    [[ "$output" == *"found 'mixtrall'; nearest: 'mixtral'" ]]
    cp "$MOE/hf/config.json" folder
    replace folder/config.json '"rope_scaling": null' '"rope_scaling": {"type": "longrope", "factor": 2}'
    refused "folder/config.json: rope_"
    replace folder/config.json '"longrope", "factor": 2' '"longrope", "short_factor": [1, 2], "long_factor": [1, 2]'
    refused "folder/config.json: short_factor: expected 8 numbers, one for each pair of rotated values of a head, found 2"
    for wrong in '{"type": "yarn", "factor": 2, "truncate": 1}|truncate: expected true or false' \
        '{"rope_type": 5}|rope_type: expected a text' '"yarn"|expected null or an object' \
        '{"type": "yarn", "factor": "2"}|factor: expected a number'; do
        cp "$MOE/hf/config.json" folder
        replace folder/config.json '"rope_scaling": null' "\"rope_scaling\": ${wrong%|*}"
        refused "folder/config.json: rope_scaling: ${wrong#*|}"
    done
    cp "$MOE/hf/config.json" folder
    sed -i 's/"num_local_experts": 8/"num_local_experts": 4096/; s/"hidden_size": 64/"hidden_size": 65536/
        s/"intermediate_size": 96/"intermediate_size": 1048576/; s/"num_attention_heads": 4/"num_attention_heads": 1024/' folder/config.json
    refused "cannot have the shape [4096,2097152,65536]"
    cp "$MOE/hf/config.json" folder
    replace folder/config.json '"hidden_size": 64' '"hidden_size": -64'
    refused "folder/config.json: hidden_size: expected a whole number from 1 to 65536"
    rm folder/config.json
    refused "folder/config.json: there is no such file"
    run "$MOEFW" import nowhere
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: nowhere: there is no such folder" ]
    : >model.gguf
    run "$MOEFW" import model.gguf
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: model.gguf: expected a file of GGUF" ]
}

@test "weights of four bits: sizes that do not fit, and lost parts, are named" {
    [ -n "$MOEFW_PRETRAINED" ] || skip "MOEFW_PRETRAINED names no reference set"
    rm -r folder
    cp -r "$MOEFW_PRETRAINED/tiny/qwen2_moe_gptq/hf" folder
    chmod -R u+w folder
    rm folder/tokenizer* folder/vocab.json folder/merges.txt # it has more ids than the model, a warning
    replace folder/model.safetensors layers.1.self_attn.q_proj.scales layers.1.self_attn.q_proj.scalez
    refused "tensor 'model.layers.1.self_attn.q_proj.scales' is missing"
    cp "$MOEFW_PRETRAINED/tiny/qwen2_moe_gptq/hf/model.safetensors" folder
    replace folder/config.json '"moe_intermediate_size": 128' '"moe_intermediate_size": 136'
    refused "tensor 'model.layers.0.mlp.experts.0.gate_proj.qweight': expected I32 of shape [32,136]"
    replace folder/config.json '"bits": 4' '"bits": 3'
    refused "found gptq of 3 bits in format gptq; GPTQModel writes 4 and 8 bits"
}

@test "a skipped tensor without elements comes back, one of an unknown type is refused" {
    rm -r folder
    cp -r "$DENSE/hf" folder
    chmod -R u+w folder
    # one more entry in the header: masked_bias of shape [0]
    header() { # header TEXT: puts it in front of the other entries, and keeps the length a multiple of 8
        f=$DENSE/hf/model.safetensors
        n=$(od -An -t u8 -N 8 "$f" | tr -d ' ')
        head -c $((8 + n)) "$f" | tail -c "$n" | sed "s/^{/{$1,/" >json
        while [ $(($(wc -c <json) % 8)) -ne 0 ]; do printf ' ' >>json; done
        m=$(wc -c <json)
        {
            # shellcheck disable=SC2059
            printf "$(printf '\\%03o' $((m & 255)) $((m >> 8 & 255)) $((m >> 16)))\\0\\0\\0\\0\\0"
            cat json
            tail -c +$((9 + n)) "$f"
        } >folder/model.safetensors
    }
    header '"h.0.attn.masked_bias":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    "$MOEFW" import folder -o new -q
    "$MOEFW" export hf new -o back -q
    "$MOEFW" import back -o again -q
    grep -aq 'masked_bias' back/model.safetensors
    header '"h.0.attn.masked_bias":{"dtype":"F9","shape":[0],"data_offsets":[0,0]}'
    rm -r new
    refused "tensor 'h.0.attn.masked_bias': its type F9 is unknown"
}

@test "skipped tensors come back, and a tied head must be the embedding" {
    run "$MOEFW" import "$DENSE/hf" -o quiet -q
    [ "$output" = quiet ]
    run "$MOEFW" import "$DENSE/hf" -o dense
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "gpt2: "*"tensors used, 3 skipped"* ]]
    "$MOEFW" export hf dense -o back
    cmp back/model.safetensors "$DENSE/hf/model.safetensors"
}

@test "gates of heads at 1 and skips at 0 leave the logits of GPT-2 as they are, bit for bit" {
    "$MOEFW" import "$DENSE/hf" -o plain -q
    "$MOEFW" train plain/config.ini --out gated -q -t 1 --steps 1 --set train.from=plain --set train.lr=0 \
        --set adapter.gates.plugin=head_gates --set adapter.gates.form=raw --set adapter.gates.init=1 \
        --set adapter.skips.plugin=unet_skip --set adapter.skips.form=residual --set adapter.skips.scale=0 \
        --set data.path='builtin:topics?bytes=20000' --set data.format=text --set train.eval_batches=1
    for run in plain gated; do "$MOEFW" eval $run --tokens "$DENSE/golden.safetensors" --save $run.out; done
    cmp plain.out gated.out
    # a gate that is not 1 changes them
    "$MOEFW" train plain/config.ini --out half -q -t 1 --steps 1 --set train.from=plain --set train.lr=0 \
        --set adapter.gates.plugin=head_gates --set adapter.gates.form=raw --set adapter.gates.init=0.5 \
        --set data.path='builtin:topics?bytes=20000' --set data.format=text --set train.eval_batches=1
    "$MOEFW" eval half --tokens "$DENSE/golden.safetensors" --save half.out
    cmp -s plain.out half.out && false
    # heads of an imported model can be measured and pruned
    "$MOEFW" train gated/config.ini --out pruned -q -t 1 --steps 1 --set train.from=gated --set train.lr=0 \
        --set controller.cut.plugin=prune --set controller.cut.by=magnitude --set controller.cut.at=1 \
        --set controller.cut.share=0.5 --set train.eval_batches=1
    grep -q '"heads":{"active":6,"total":12' pruned/metrics.jsonl
}

@test "a bit that flips in headers, index or configuration never makes a crash or half a run" {
    # refused with one line, or, where nothing depends on the byte, imported
    flip() {
        printf "\\x$(printf %02x $(($(od -A n -t u1 -j "$2" -N 1 "$1") ^ $3)))" |
            dd of="$1" bs=1 seek="$2" conv=notrunc status=none
    }
    shard=folder/model-00001-of-00005.safetensors
    bad=0
    for at in 0 1 4 7 8 9 12 20 40 41 55 60 70 77 90 110 130 151; do
        for file in "$shard" folder/model.safetensors.index.json folder/config.json; do
            cp "$file" intact
            flip "$file" $at $((1 << at % 7))
            rm -rf new
            run "$MOEFW" import folder -o new -q
            cp intact "$file"
            [ "$status" -eq 0 ] && continue
            [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [ ! -e new ] || {
                echo "$file, byte $at: status $status: $output"
                return 1
            }
            bad=$((bad + 1))
        done
    done
    [ "$bad" -ge 20 ]
}

@test "settings of the user add nothing to an imported model" {
    mkdir moefw
    printf '[adapter.lora]\nrank = 2\n' >moefw/moefw.ini
    "$MOEFW" import folder -o new -q -t 1
    grep -q '^\[router\]' new/config.ini
    run grep '^\[adapter' new/config.ini
    [ "$status" -eq 1 ]
    "$MOEFW" eval new --tokens "$MOE/golden.safetensors" --save values -q -t 1
}
