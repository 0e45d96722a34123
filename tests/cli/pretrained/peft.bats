# moefw import ADAPTER --onto RUN and export peft: adapters of PEFT are trained, exported and merged.

setup_file() {
    . "$srcdir/tests/cli/pretrained/imported.bash"
    imported_file
}

setup() {
    . "$srcdir/tests/cli/pretrained/imported.bash"
    imported_setup
}

@test "an adapter of PEFT is imported onto a run, trained, exported and merged" {
    peft="$srcdir/tests/golden/pretrained/peft"
    run "$MOEFW" import "$peft/corrected"
    [ "$status" -eq 2 ]
    [[ "$output" == *"corrected is an adapter of PEFT: expected --onto BASE, the run of its model" ]]
    run "$MOEFW" import "$peft/exchanged" --onto run -o adapted
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "mixtral: 394208 parameters, 168032 for each token; 16 tensors used, 0 skipped" ]
    grep -qx 'at = router.weight, attention.q, attention.v' adapted/config.ini
    grep -qx 'freeze = \*' adapted/config.ini
    "$MOEFW" export peft adapted -o peft
    cmp peft/adapter_model.safetensors "$peft/corrected/adapter_model.safetensors"
    grep -q '"target_modules":\["self_attn.q_proj","self_attn.v_proj"\]' peft/adapter_config.json
    small=(--set data.path='builtin:topics?bytes=20000' --set model.seq=32 --set data.format=text)
    "$MOEFW" train adapted/config.ini -q -t 1 --out trained "${small[@]}" --set train.from=adapted --steps 2 \
        --set train.eval_batches=1 --set train.batch=2
    "$MOEFW" export peft trained -o peft2
    cmp -s peft2/adapter_model.safetensors peft/adapter_model.safetensors && false
    "$MOEFW" export hf trained --unmerged -o base
    cmp base/model-00001-of-00005.safetensors folder/model-00001-of-00005.safetensors
    "$MOEFW" export hf trained --dtype f32 -o merged
    grep -q '"torch_dtype": "float32"' merged/config.json
    grep -q '"total_size": 1545472' merged/model.safetensors.index.json
    "$MOEFW" import merged -o again -q
    run "$MOEFW" export hf trained --dtype int4 -o other
    [ "$status" -eq 2 ]
}

@test "export peft tells of a change that PEFT would not load, and only then" {
    "$MOEFW" import "$srcdir/tests/golden/pretrained/peft/latent/hf" -o small --no-tokenizer -q -t 1
    for at in 'shared.*' 'attention.*'; do
        "$MOEFW" train small/config.ini -q -t 1 --out "with${at%%.*}" --steps 1 --set train.freeze='*' \
            --set data.path='builtin:topics?bytes=20000' --set model.seq=16 --set train.eval_batches=1 \
            --set adapter.lora.plugin=lora --set adapter.lora.at="$at"
    done
    run "$MOEFW" export peft withshared -o peft1
    [ "$status" -eq 0 ]
    [[ "$output" == *"shared_experts."*" takes this target for the experts of deepseek_v2 and does not load its change"* ]]
    run "$MOEFW" export peft withattention -o peft2
    [ "$status" -eq 0 ]
    [[ "$output" != *"does not load"* ]]
}

@test "adapters that do not fit, or that lora cannot follow, are refused with key or tensor" {
    cp -r "$srcdir/tests/golden/pretrained/peft/corrected" adapter
    chmod -R u+w adapter
    # not TEXT: the adapter is refused with one line that has the text, and no run is left
    not() {
        run "$MOEFW" import adapter --onto run -o new
        [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [[ "$output" == *"$1"* ]] && [ ! -e new ] && return
        echo "status $status, expected 3 and one line with: $1"
        echo "$output"
        return 1
    }
    replace adapter/adapter_config.json '"use_dora": false' '"use_dora": true'
    not "use_dora cannot be imported"
    replace adapter/adapter_config.json '"use_dora": true' '"use_dora": false'
    replace adapter/adapter_config.json LORA IA3
    not "peft_type: expected LORA, found IA3"
    replace adapter/adapter_config.json IA3 LORA
    replace adapter/adapter_model.safetensors 'layers.0.self_attn.q_proj.lora_A' 'layers.0.self_attn.x_proj.lora_A'
    not "has no partner"
    replace adapter/adapter_model.safetensors 'layers.0.self_attn.q_proj.lora_B' 'layers.0.self_attn.x_proj.lora_B'
    not "the model has no linear layer 'model.layers.0.self_attn.x_proj'"
    cp "$srcdir/tests/golden/pretrained/peft/corrected/adapter_model.safetensors" adapter
    "$MOEFW" import "$DENSE/hf" -o dense -q
    run "$MOEFW" import adapter --onto dense -o new
    [ "$status" -eq 3 ]
    [[ "$output" == *"the model has no linear layer"* ]]
    "$MOEFW" import adapter --onto run -o one -q
    run "$MOEFW" import adapter --onto one -o two
    [ "$status" -eq 3 ]
    [[ "$output" == "moefw: one: expected a run without adapters, found [adapter.lora]" ]]
    run "$MOEFW" export peft run -o none
    [ "$status" -eq 3 ]
    [ ! -e none ]
}
