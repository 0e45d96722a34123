# moefw quantize: a run in four bits, its folder, what it tells of the cost, and what it refuses.

bats_require_minimum_version 1.5.0

setup_file() {
    export OMP_WAIT_POLICY=passive XDG_CONFIG_HOME="$BATS_FILE_TMPDIR"
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o imported -q -t 1 >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cp -r "$BATS_FILE_TMPDIR/imported" run
    small=(-t 1 -q --set data.path='builtin:topics?bytes=40000' --set model.seq=32 --set train.batch=4 --batches 2)
}

# value KEY: the number with this key in the JSON in $output
value() {
    printf '%s\n' "$output" | grep -oE "\"$1\":[^],}]*" | head -1 | cut -d: -f2
}

@test "a run in four bits: the loss that quantize tells is the loss of the new run" {
    run "$MOEFW" quantize run -o new --group 32 --json -t 1 -q --batches 2
    [ "$status" -eq 0 ]
    # 2 blocks: q, k, v, o, and three matrices in each expert
    [ "$(value quantized)" -gt 8 ]
    [ "$(value rounded)" = "$(value quantized)" ]
    after=$(value loss_after)
    [ "$(value loss_before)" != "$after" ]
    [ "$(printf '%s' "$output" | grep -o '"changed"' | wc -l)" -eq 2 ]
    "$MOEFW" ckpt verify new
    run "$MOEFW" eval new --json -t 1 -q --batches 2
    [ "$status" -eq 0 ]
    awk -v a="$after" -v b="$(value loss)" 'BEGIN { d = a - b; exit !(d < 1e-4 && d > -1e-4) }'
}

@test "eight bits cost less than four, and need no measuring" {
    for bits in 4 8; do
        run "$MOEFW" quantize run -o "new$bits" --bits $bits --group 32 --json -t 1 -q --batches 2
        [ "$status" -eq 0 ]
        declare "kl$bits=$(value kl_next_token)"
    done
    # shellcheck disable=SC2154
    awk -v four="$kl4" -v eight="$kl8" 'BEGIN { exit !(eight > 0 && eight < four / 5) }'
    grep -q '"bits": 8' new8.hf/config.json
    run "$MOEFW" quantize run -o again --bits 8 --group 32 -t 1 --no-measure
    [ "$status" -eq 0 ]
    [[ "$output" == *"weights have eight bits"*"not measured: --no-measure"* ]]
    "$MOEFW" quantize run -o third --bits 8 --group 32 -t 1 -q --no-measure --json |
        grep -q '"kl_next_token":null,"loss_before":null,"loss_after":null,"batches":0,'
    cmp new8.hf/model.safetensors again.hf/model.safetensors
    # the same with more threads, and of weights that are in memory
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o copied --copy -q -t 1
    for old in run copied; do
        "$MOEFW" quantize $old -o "$old-4" --bits 4 --group 32 -t 3 -q --no-measure
        cmp new4.hf/model.safetensors "$old-4.hf/model.safetensors"
        cmp new4/pretrained/checksums.xxh128 "$old-4/pretrained/checksums.xxh128"
        "$MOEFW" import "$old-4.hf" -o "$old-again" -q -t 1 # compares the checksums
    done
    run "$MOEFW" quantize run -o none --bits 5
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: --bits=5: expected 4 or 8" ]
}

@test "the folder has GPTQ's tensors and settings, and export gives it back" {
    "$MOEFW" quantize run -o new --group 64 --gptq 2 --act-order "${small[@]}"
    strings -n 8 new.hf/model.safetensors | head -200 >names
    for part in qweight qzeros scales g_idx; do grep -q "q_proj.$part" names; done
    grep -q 'gate.weight' names
    grep -q '"desc_act": true' new.hf/quantize_config.json
    grep -q '"group_size": 64' new.hf/config.json
    "$MOEFW" export hf new -o back
    for file in new.hf/*; do cmp "$file" "back/${file##*/}"; done
}

@test "an adapter on four bits is merged into plain weights, which have its loss" {
    measure=(--json -t 1 -q --set data.path='builtin:topics?bytes=40000' --set model.seq=32 --batches 2)
    "$MOEFW" quantize run -o new --group 64 "${small[@]}"
    "$MOEFW" import "$srcdir/tests/golden/pretrained/peft/all_linear" --onto new -o adapted -q -t 1
    run "$MOEFW" export hf adapted -o packed
    [ "$status" -eq 3 ]
    [[ "$output" == *"--dtype"* ]]
    [ ! -e packed ]
    "$MOEFW" export hf adapted -o merged --dtype f32 -q
    "$MOEFW" import merged -o plain -q -t 1
    for name in new adapted plain; do
        run "$MOEFW" eval $name "${measure[@]}"
        [ "$status" -eq 0 ]
        declare "$name=$(value loss)"
    done
    # shellcheck disable=SC2154
    awk -v n="$new" -v a="$adapted" -v p="$plain" \
        'BEGIN { d = a - p; e = a - n; exit !(d * d < 1e-10 && e * e > 1e-6) }'
}

@test "weights of four bits are copied only if the run does not need the folder" {
    "$MOEFW" quantize run -o new "${small[@]}"
    "$MOEFW" import new.hf -o near -q -t 1
    "$MOEFW" import new.hf -o own --copy -q -t 1
    [ -e own/pretrained/skipped.safetensors ]
    [ ! -e near/pretrained/skipped.safetensors ]
    [ ! -e new/pretrained/skipped.safetensors ]
    # runs that were trained from them, first at a rate of 0
    train=(-q -t 1 --steps 1 --set data.path='builtin:topics?bytes=40000' --set model.seq=32 --set train.batch=2
        --set train.eval_batches=1 --set report.enabled=no --set train.lr=0)
    for run in near own; do
        "$MOEFW" train "$run/config.ini" --out "$run.router" --set train.from="$run" "${train[@]}" \
            --set train.freeze='attention.*'
        "$MOEFW" export hf "$run.router" -o "$run.router.hf"
    done
    cmp near.router.hf/model.safetensors own.router.hf/model.safetensors
    "$MOEFW" train near/config.ini --out all --set train.from=near "${train[@]}" --set train.lr=.01 --set train.freeze=
    run "$MOEFW" export hf all -o all.hf
    [ "$status" -eq 3 ]
    [[ "$output" == *"was trained, and its form of few bits cannot say the new values"* ]]
    for run in near own; do
        "$MOEFW" export hf "$run" -o "$run.hf"
        for file in new.hf/*; do cmp "$file" "$run.hf/${file##*/}"; done
    done
    "$MOEFW" export gguf near --dtype f32 -o near.gguf
    "$MOEFW" export gguf own --dtype f32 -o own.gguf
    cmp near.gguf own.gguf
    mv new.hf gone
    run "$MOEFW" export hf near -o again
    [ "$status" -eq 3 ]
    [[ "$output" == *"new.hf/model.safetensors"*"is missing"* ]]
    "$MOEFW" export hf own -o again
    cmp again/model.safetensors gone/model.safetensors
}

@test "quantize tells how far the predictions are apart; with finer groups they are nearer" {
    "$MOEFW" quantize run -o coarse --group 64 --json "${small[@]}" >coarse.json
    output=$(cat coarse.json)
    coarse=$(value kl_next_token)
    run "$MOEFW" quantize run -o fine --group 8 --json "${small[@]}"
    [ "$status" -eq 0 ]
    awk -v c="$coarse" -v f="$(value kl_next_token)" 'BEGIN { exit !(f > 0 && f < c) }'
    # without -o the run has the first number that is free
    mkdir -p runs/run-int4-1 runs/run-int4-2.hf
    "$MOEFW" quantize run "${small[@]/-q/-v}" | grep 'KL of predictions 0\.[0-9]*, loss'
    [ -f runs/run-int4-3/config.ini ]
    [ -f runs/run-int4-3.hf/config.json ]
}

@test "routers, norms, embedding and head stay as they are" {
    "$MOEFW" quantize run -o new "${small[@]}"
    run "$MOEFW" swap new --router linear -o same --json "${small[@]}"
    awk -v kl="$(value kl_next_token)" 'BEGIN { exit !(kl < 1e-6 && kl > -1e-6) }'
    "$MOEFW" quantize run -o other --gptq 2 "${small[@]}"
    # the same tensors, but for those of four bits
    cmp new.hf/model.safetensors other.hf/model.safetensors && false
    [ "$(wc -c <new.hf/model.safetensors)" -eq "$(wc -c <other.hf/model.safetensors)" ]
}

@test "experts that the calibration does not reach are rounded, which is told" {
    # two tokens take at most four of eight experts, which have three matrices in each of two layers
    run "$MOEFW" quantize run -o new --gptq 1 "${small[@]}" --set model.seq=2 --set train.batch=1 --batches 1
    [ "$status" -eq 0 ]
    rounded=$(sed -n 's/^\([0-9]*\) of them are rounded to nearest: the calibration never reached them$/\1/p' <<<"$output")
    [ "$rounded" -ge 24 ]
    [ "$rounded" -le $((2 * 3 * 7)) ]
    [ $((rounded % 3)) -eq 0 ]
}

@test "what cannot be quantized is refused with one line, and nothing is left" {
    refuse() {
        run "$MOEFW" quantize "$@"
        echo "$output"
        [ "${#lines[@]}" -eq 1 ]
        [ ! -e new ]
        [ ! -e new.hf ]
    }
    refuse run -o new --group 12 "${small[@]}"
    [ "$status" -eq 2 ]
    [[ "$output" == *"multiple of 8"* ]]
    refuse run -o new --bits 3 "${small[@]}"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--bits=3: expected 4"* ]]
    refuse run -o new --act-order "${small[@]}"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--gptq N"* ]]
    refuse nowhere -o new "${small[@]}"
    [ "$status" -eq 3 ]
    "$MOEFW" quantize run -o once --bits 4 "${small[@]}"
    refuse once -o new "${small[@]}"
    [ "$status" -eq 2 ]
    [[ "$output" == *"few bits already"* ]]
    mkdir new.hf
    run "$MOEFW" quantize run -o new "${small[@]}"
    [ "$status" -eq 2 ]
    [[ "$output" == *"new.hf: exists already"* ]]
    [ ! -e new ]
}

@test "a weight that is not finite is named, and nothing is left" {
    cp -r "$srcdir/tests/golden/pretrained/mixtral/hf" bad
    chmod -R u+w bad
    local f name=model.layers.1.self_attn.o_proj.weight length begin
    f=$(grep -laF "\"$name\":" bad/*.safetensors)
    length=$(od -An -t u8 -N 8 "$f" | tr -d ' ')
    begin=$(head -c $((8 + length)) "$f" | tail -c "$length" | grep -o "\"$name\":{[^}]*}" | sed 's/.*offsets":\[\([0-9]*\),.*/\1/')
    printf '\377\377\377\377' | dd of="$f" bs=1 seek=$((8 + length + begin)) conv=notrunc status=none
    "$MOEFW" import bad -o nan -q -t 1
    for options in "${small[*]}" "-q --no-measure"; do
        # shellcheck disable=SC2086 # lists of words
        run "$MOEFW" quantize nan -o new $options
        echo "$output"
        [ "$status" -eq 3 ]
        [[ "${lines[-1]}" == *"layers.1.attention.out.weight: expected finite weights, found"*nan* ]]
        [ ! -e new ]
        [ ! -e new.hf ]
        [ ! -e new.hf.tmp ]
    done
    run "$MOEFW" eval nan "${small[@]}"
    [[ "$output" == *"warning: the loss is not finite"*": loss "*nan* ]]
    local table='{"input_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},"labels":{"dtype":"I64","shape":[1,2],"data_offsets":[16,32]}}'
    {
        printf '%b' "\\x$(printf %02x ${#table})" '\0\0\0\0\0\0\0'
        printf %s "$table"
        printf '\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0%.0s' 1 2
    } >tokens
    run "$MOEFW" eval nan --tokens tokens --save out -t 1
    [ "$status" -eq 0 ]
    [[ "$output" == *"loss of the labels "*nan*"warning: the loss is not finite"* || "$output" == *"warning: the loss is not finite"*"loss of the labels "*nan* ]]
}

@test "a run without tokenizer has no data: rounding works, the rest says what it wants" {
    cp -r "$srcdir/tests/golden/pretrained/mixtral/hf" hf
    chmod -R u+w hf
    rm hf/tokenizer*
    "$MOEFW" import hf -o bare -q -t 1
    run --separate-stderr "$MOEFW" quantize bare -o new --group 32 --json -q -t 1
    [ "$status" -eq 0 ] || { echo "$stderr"; false; }
    [[ "$stderr" == *"bare has no data: its weights are rounded, and what this costs is not measured; --calibrate FILE gives data"* ]]
    [ "$(value quantized)" -gt 8 ]
    [ "$(value loss_before)" = null ]
    [ "$(value batches)" = 0 ]
    "$MOEFW" ckpt verify new
    run --separate-stderr "$MOEFW" quantize bare -o told --group 32 -q -t 1
    [ "${lines[1]}" = "not measured: the run has no data" ]
    [[ "${lines[-1]}" == "told, weights in "*"told.hf" ]]
    run "$MOEFW" quantize bare -o other --group 32 --gptq 2 -q -t 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"bare has no data, and GPTQ wants inputs: expected --calibrate FILE"* ]]
    printf 'text is no file of ids, here of two bytes\n' >text.txt
    run "$MOEFW" quantize bare -o other --group 32 --calibrate text.txt -q -t 1
    [ "$status" -eq 3 ]
    [[ "$output" == *"text.txt: a text, not ids: expected data.format = text, which needs a tokenizer, or ids"* ]]
    printf '\377\177\001\000' >ids.bin
    run "$MOEFW" quantize bare -o other --group 32 --calibrate ids.bin -q -t 1
    [ "$status" -eq 3 ]
    [[ "$output" == *"ids.bin: the largest id is "*": expected less than 512, the model's vocabulary; the model has no tokenizer"* ]]
    run "$MOEFW" train bare/config.ini --out other --steps 1 -q -t 1
    [ "$status" -eq 3 ]
    [[ "$output" == *": data.path = none: there are no data: --data FILE names some" ]]
    run "$MOEFW" swap bare --router hash -o other -q -t 1
    [ "$status" -eq 3 ]
    [[ "$output" == *"config.ini:"*": data.path = none: there are no data: --data FILE names some" ]]
    [ ! -e other ]
}

# zeros FILE BYTE PATTERN: fills the zeros of tensors whose names match with a byte
zeros() {
    local start from to
    start=$((8 + $(od -An -t u8 -N 8 "$1" | tr -d ' ')))
    head -c "$start" "$1" | tail -c +9 | grep -aoE "\"[^\"]*$3[^\"]*\.qzeros\":\{[^}]*\}" |
        sed -E 's/.*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2/' | while read -r from to; do
        head -c $((to - from)) /dev/zero | tr '\0' "\\$2" |
            dd of="$1" bs=65536 seek=$((start + from)) oflag=seek_bytes conv=notrunc status=none
    done
}

@test "zeros of another version of GPTQ than the configuration says are refused" {
    "$MOEFW" quantize run -o new --group 32 "${small[@]}"
    rm new.hf/checksums.xxh128
    grep -q '"sym": *false' new.hf/config.json || sed -i 's/"sym": *true/"sym": false/' new.hf/config.json
    zeros new.hf/model.safetensors 210 . # 0x88
    run "$MOEFW" import new.hf -o two
    [ "$status" -eq 3 ]
    [[ "$output" == *".qzeros': zeros are stored as 8, which is format gptq_v2 where all of them are, but config.json says format gptq, where they are 7; \"checkpoint_format\": \"gptq_v2\" in quantization_config reads them as they are" ]]
    [ ! -e two ]
    # weights that are not symmetric may have some of them
    zeros new.hf/model.safetensors 167 q_proj # 0x77
    "$MOEFW" import new.hf -o some -q
    # symmetric ones have 7
    sed -i 's/"sym": *false/"sym": true/' new.hf/config.json
    run "$MOEFW" import new.hf -o two
    [ "$status" -eq 3 ]
    [[ "$output" == *"is format gptq_v2 where quantization_config has sym = true, but"* ]]
    # also where they are mixed within a word
    zeros new.hf/model.safetensors 170 q_proj # 0x78
    zeros new.hf/model.safetensors 167 '[^q]_proj'
    run "$MOEFW" import new.hf -o two
    [ "$status" -eq 3 ]
    [[ "$output" == *".qzeros': some zeros are stored as 8, which is format gptq_v2 where quantization_config has sym = true, but"* ]]
    zeros new.hf/model.safetensors 167 .
    "$MOEFW" import new.hf -o one -q
    # either key names the format, and then zeros of the first are refused
    for key in format checkpoint_format; do
        cp new.hf/config.json kept
        sed -i "s/\"checkpoint_format\": *\"gptq\"/\"$key\": \"gptq_v2\"/" new.hf/config.json
        run "$MOEFW" import new.hf -o two
        [ "$status" -eq 3 ]
        [[ "$output" == *"zeros are stored as 7, which is format gptq where quantization_config has sym = true, but config.json says format gptq_v2, where they are 8;"* ]]
        mv kept new.hf/config.json
    done
}
