# Imported models whose weights keep the types of their files, on the CUDA backend with libraries
# that stand for those of CUDA: evaluation, texts and a step of LoRA give what the CPU gives, no op
# runs on the host, and tokens are decoded by replaying one recording.
# MOEFW_PRETRAINED=FOLDER (tests/cli/pretrained/folders.bats) adds a model of MXFP4.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/fake_cuda.bash"

setup_file() {
    make_fake_cuda
    [ -z "$LACKING" ] || return 0
    cd "$BATS_FILE_TMPDIR" || exit 1
    export OMP_WAIT_POLICY=passive XDG_CONFIG_HOME="$BATS_FILE_TMPDIR"
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o bf16 -q -t 1 >&2
    for form in plain act-order; do
        words=
        [ $form = plain ] || words=--act-order
        # shellcheck disable=SC2086
        "$MOEFW" quantize bf16 -o gptq-$form --group 32 --gptq 2 $words -q -t 1 --batches 2 \
            --set data.path='builtin:topics?bytes=40000' --set model.seq=32 --set train.batch=4 >&2
    done
    mxfp4=$MOEFW_PRETRAINED/tiny/gpt_oss_mxfp4/hf
    [ ! -d "$mxfp4" ] || "$MOEFW" import "$mxfp4" -o mxfp4 -q -t 1 >&2
    seq 1 3000 | tr '\n' ' ' >text
}

setup() {
    use_fake_cuda 1
    cd "$BATS_FILE_TMPDIR" || exit 1
    T="$BATS_TEST_TMPDIR"
}

# number KEY: the first number of this key in the JSON on stdin
number() {
    grep -oE "\"$1\":[-+0-9.e]+" | head -n 1 | cut -d: -f2
}

# near A B BOUND
near() {
    awk -v a="$1" -v b="$2" -v bound="$3" 'BEGIN { d = a > b ? a - b : b - a
        exit !(a != "" && b != "" && d <= bound * (a < 0 ? 1 - a : 1 + a)) }' || { echo "$1, but $2"; return 1; }
}

# same RUN TYPE: a run whose weights have this type evaluates and generates on the device as on the CPU
same() {
    [ -d "$1" ] || skip "set MOEFW_PRETRAINED to a folder with tiny/gpt_oss_mxfp4"
    grep -q "\"type\":\"$2\"" "$1/stored.json"
    for dtype in f32 bf16; do
        bound=1e-5
        [ $dtype = f32 ] || bound=2e-2
        for device in cpu cuda; do
            on $device eval "$1" --data text --batches 1 --dtype $dtype --json >"$T/$device.json" 2>"$T/$device.said"
            [ ! -s "$T/$device.said" ] || { cat "$T/$device.said"; return 1; }
        done
        near "$(number loss <"$T/cpu.json")" "$(number loss <"$T/cuda.json")" $bound
    done
    on cpu generate "$1" -p All -n 6 --temp 0 -q >"$T/cpu.text"
    on cuda generate "$1" -p All -n 6 --temp 0 -q >"$T/cuda.text"
    [ -s "$T/cpu.text" ]
    cmp "$T/cpu.text" "$T/cuda.text"
}

# lora RUN DTYPE BOUND: a step that trains LoRA over frozen weights has the loss and the norm of the CPU
lora() {
    [ -d "$1" ] || skip "set MOEFW_PRETRAINED to a folder with tiny/gpt_oss_mxfp4"
    for device in cpu cuda; do
        # shellcheck disable=SC2086
        on $device train "$1/config.ini" -q --out "$T/$device" $small --data text --set data.format=text \
            --set data.tokenizer="$1/tokenizer.json" --set train.from="$1" --set train.dtype=$2 \
            --set adapter.l.plugin=lora --set adapter.l.rank=4 --steps 1 --set device.strict=yes \
            --set 'train.freeze=*.weight,layers.*.expert.*'
        grep -q qkv "$T/$device/stored.json"
    done
    close_to "$T/cpu" "$T/cuda" 1 "$3"
}

@test "a model in bf16 evaluates and generates as on the CPU" {
    same bf16 BF16
}

@test "models in four bits of GPTQ evaluate and generate as on the CPU" {
    same gptq-plain GPTQ4
    same gptq-act-order GPTQ4
}

@test "a model in MXFP4 evaluates and generates as on the CPU" {
    same mxfp4 MXFP4
}

@test "LoRA over weights of bf16: no op runs on the host" {
    lora bf16 f32 1e-5
    rm -r "${T:?}"/*
    lora bf16 bf16 2e-2
}

@test "LoRA over weights of four bits" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    for run in gptq-plain gptq-act-order; do
        for dtype in f32 bf16; do
            rm -rf "${T:?}"/*
            lora $run $dtype "$([ $dtype = f32 ] && echo 1e-5 || echo 2e-2)"
        done
    done
}

@test "LoRA over weights of MXFP4" {
    lora mxfp4 f32 1e-5
    rm -r "${T:?}"/*
    lora mxfp4 bf16 2e-2
}

@test "weights lie on the device in the bytes of their files, and are counted" {
    fake_only
    MOEFW_FAKE_STATS=1 on cuda eval bf16 --data text --batches 1 2>"$T/mapped" >/dev/null
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o "$T/copied" --copy -q -t 1
    MOEFW_FAKE_STATS=1 on cuda eval "$T/copied" --data text --batches 1 2>"$T/copied.stats" >/dev/null
    most() { sed -n 's/^fake runtime: bytes of the device at most //p' "$1"; }
    # 386,048 parameters, which are two bytes in place of four
    less=$(($(most "$T/copied.stats") - $(most "$T/mapped")))
    [ "$less" -gt $((386048 * 2 * 9 / 10)) ]
    [ "$less" -lt $((386048 * 2 * 11 / 10)) ]
    run -0 on cuda config check bf16/config.ini --data text --set train.from=bf16 --json \
        --set data.tokenizer=bf16/tokenizer.json --set 'train.freeze=*.weight,layers.*.expert.*'
    mapped=$(number device_mib <<<"$output")
    run -0 on cuda config check bf16/config.ini --data text --json --set data.tokenizer=bf16/tokenizer.json
    awk -v a="$mapped" -v b="$(number device_mib <<<"$output")" 'BEGIN { exit !(a > .7 && a < b) }'
}

@test "a device without memory for the weights: one message, which says for what" {
    fake_only
    found=
    for n in $(seq 1 30); do
        MOEFW_FAKE_FAIL=$n run on cuda eval bf16 --data text --batches 1
        [[ "$output" == *"no memory"*" MiB are for weights in the types that their files have"* ]] || continue
        [ "$status" -eq 1 ]
        [ "${#lines[@]}" -eq 1 ]
        found=1
        break
    done
    [ -n "$found" ]
}

@test "decoding replays one recording a token" {
    fake_only
    for n in 6 10; do
        MOEFW_FAKE_STATS=1 on cuda generate bf16 -p All -n $n --temp 0 -q 2>"$T/$n" >/dev/null
    done
    count() { sed -n "s/^fake runtime: $1 //p" "$T/$2"; }
    [ $(($(count "graph launches" 10) - $(count "graph launches" 6))) -eq 4 ]
    # a token more is a copy there, the replay, a copy back and a wait; no kernel is launched by itself
    [ "$(count kernels 10)" -eq "$(count kernels 6)" ]
    for what in "copies to" "copies from" waits; do
        [ $(($(count "$what" 10) - $(count "$what" 6))) -eq 4 ]
    done
    # device.record = no: nothing is recorded, and the text is the same
    cp -r bf16 "$T/own"
    sed -i 's/^record = yes$/record = no/' "$T/own/config.ini"
    MOEFW_FAKE_STATS=1 on cuda generate "$T/own" -p All -n 6 --temp 0 -q 2>"$T/plain" >"$T/text"
    run grep "graph launches" "$T/plain"
    [ "$status" -eq 1 ]
    cmp <(on cuda generate bf16 -p All -n 6 --temp 0 -q) "$T/text"
}
