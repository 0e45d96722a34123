# Runs whose weights stay in the files of the folder that they were imported from: the same numbers as
# with copies, small checkpoints, and files that changed are refused.

setup_file() {
    export OMP_WAIT_POLICY=passive
    export MOE="$srcdir/tests/golden/pretrained/mixtral"
    cd "$BATS_FILE_TMPDIR" || exit 1
    cp -r "$MOE/hf" folder
    chmod -R u+w folder
    "$MOEFW" import folder -o run -q -t 1 >&2
    "$MOEFW" import folder -o copied --copy -q -t 1 >&2
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" T="$BATS_TEST_TMPDIR"
    small=(--set data.path='builtin:topics?bytes=20000' --set model.seq=32 --set data.format=text
        --set train.eval_batches=1 --set train.batch=2)
}

# refused TEXT: a run cannot be opened, with status 3 and one line that has the text
refused() {
    run "$MOEFW" eval "$T/run" --tokens "$MOE/golden.safetensors" --save "$T/values"
    [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [[ "$output" == *"$1"* ]] && return
    echo "status $status, expected 3 and one line with: $1"
    echo "$output"
    return 1
}

@test "matrices stay in the folder; the checkpoint holds norms only, and is small" {
    [ -e run/stored.json ]
    [ ! -e copied/stored.json ]
    [ "$(stat -c %s run/ckpt/step-0/model.safetensors)" -lt 8192 ]
    [ "$(stat -c %s copied/ckpt/step-0/model.safetensors)" -gt 1000000 ]
    "$MOEFW" import folder -o "$T/new" --json >"$T/json"
    grep -q '"params_in_files":386048,"tokenizer"' "$T/json"
    "$MOEFW" ckpt verify run
}

@test "config check counts what stays in the files: 386,048 weights of two bytes" {
    run "$MOEFW" config check run/config.ini --set train.from=run --set 'train.freeze=*' "${small[@]}"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = "0.39 M of them stay in their files as BF16: 0.74 MiB" ]
    run "$MOEFW" config check run/config.ini "${small[@]}"
    [[ "$output" != *"stay in their files"* ]]
}

@test "the same losses, texts and exports as with copies" {
    for run in run copied; do
        "$MOEFW" eval $run --tokens "$MOE/golden.safetensors" --save "$T/values.$run" >"$T/eval.$run"
        "$MOEFW" generate $run --prompt All -n 8 --temp 0 -q >"$T/text.$run"
        "$MOEFW" export hf $run -o "$T/back.$run"
        diff -r folder "$T/back.$run" | grep -v '^Only in .*checksums' && false
    done
    cmp "$T/text.run" "$T/text.copied"
    cmp "$T/eval.run" "$T/eval.copied"
}

@test "frozen weights stay where they are in training, trained ones get f32 values" {
    "$MOEFW" train run/config.ini -q -t 1 --out "$T/router" "${small[@]}" --set train.from=run --steps 2 \
        --set 'train.freeze=*.weight,layers.*.expert.*' >"$T/log" 2>&1 || { cat "$T/log"; false; }
    grep -q expert "$T/router/stored.json"
    "$MOEFW" train run/config.ini -q -t 1 --out "$T/mapped" "${small[@]}" --set train.from=run --steps 2 \
        --set 'train.freeze=*expert*'
    "$MOEFW" train copied/config.ini -q -t 1 --out "$T/plain" "${small[@]}" --set train.from=copied \
        --steps 2 --set 'train.freeze=*expert*'
    grep -q expert.w13 "$T/mapped/stored.json"
    grep -q qkv "$T/mapped/stored.json" && false
    # expert weights are in no checkpoint; losses agree
    grep -aq expert.w13 "$T/mapped/ckpt/step-2/model.safetensors" && false
    losses() { sed -n 's/.*"loss":\([0-9.]\{5\}\).*/\1/p' "$1/metrics.jsonl"; }
    [ "$(losses "$T/mapped" | wc -l)" -ge 2 ]
    diff <(losses "$T/mapped") <(losses "$T/plain")
    # going on, and weights out again
    "$MOEFW" train --resume "$T/mapped" -q -t 1 --steps 3
    "$MOEFW" export hf "$T/mapped" -o "$T/back"
    cmp <(grep -ao 'experts.1.w2.weight' "$T/back"/*-00003*) <(grep -ao 'experts.1.w2.weight' folder/*-00003*)
}

# near KEY ONE OTHER SHARE: a number of the first lines that have it differs, by at most this share
near() {
    number() { sed -n "s/.*\"$1\":\([0-9.e-]*\).*/\1/p" "$2" | head -1; }
    awk -v a="$(number "$1" "$2")" -v b="$(number "$1" "$3")" -v s="$4" \
        'BEGIN {exit !(a > 0 && a != b && (a - b) ^ 2 < (s * b) ^ 2)}'
}

@test "train.dtype = bf16: rows are rounded, weights not; loss and gradients stay near those of f32" {
    for dtype in f32 bf16; do
        "$MOEFW" eval run --data 'builtin:topics?bytes=20000' --batches 1 --dtype $dtype --json >"$T/eval.$dtype"
        "$MOEFW" train run/config.ini -q -t 1 --out "$T/lora.$dtype" "${small[@]}" --set train.from=run \
            --set train.dtype=$dtype --set adapter.l.plugin=lora --set adapter.l.rank=4 --set train.freeze=*.weight,layers.*.expert.* --steps 1
        grep -q qkv "$T/lora.$dtype/stored.json"
    done
    near loss "$T/eval.bf16" "$T/eval.f32" .01
    near loss "$T/lora.bf16/metrics.jsonl" "$T/lora.f32/metrics.jsonl" .01
    near grad_norm "$T/lora.bf16/metrics.jsonl" "$T/lora.f32/metrics.jsonl" .05
}

@test "a router is swapped on mapped weights, and the new run needs no copy of them" {
    "$MOEFW" swap run --router mlp:hidden=8 --batches 1 -o "$T/swapped" -q --data folder/tokenizer.json >&2
    [ -e "$T/swapped/stored.json" ]
    "$MOEFW" eval "$T/swapped" --tokens "$MOE/golden.safetensors" --save "$T/values"
    "$MOEFW" swap run --router linear --batches 1 -o "$T/same" -q --data folder/tokenizer.json >&2
}

@test "a file that changed, is cut, or is gone is refused by name" {
    cp -r folder "$T/folder"
    "$MOEFW" import "$T/folder" -o "$T/run" -q
    shard=$T/folder/model-00002-of-00005.safetensors
    # another time alone is no change
    touch "$shard"
    "$MOEFW" eval "$T/run" --tokens "$MOE/golden.safetensors" --save "$T/values"
    rm "$T/values"
    cp "$shard" "$T/good"
    printf '\x55' | dd of="$shard" bs=1 seek=3000 conv=notrunc 2>/dev/null
    refused "$shard, which holds weights of this run, has changed: expected XXH3-128"
    truncate -s -4 "$shard"
    refused "$shard, which holds weights of this run, has changed: expected "
    rm "$shard"
    refused "$shard, which holds weights of this run, is missing"
    cp "$T/good" "$shard"
    "$MOEFW" eval "$T/run" --tokens "$MOE/golden.safetensors" --save "$T/values"
    rm "$T/values"
}

@test "a run and its folder may move together, or the run alone; the files beside the run count" {
    same() {
        "$MOEFW" eval "$1" --tokens "$MOE/golden.safetensors" --save "$T/values.$2" | grep loss >"$T/eval.$2"
        cmp "$T/eval.$2" "$T/eval.1"
    }
    same run 1
    mkdir "$T/a" "$T/c"
    cp -r folder "$T/a"
    "$MOEFW" import "$T/a/folder" -o "$T/a/run" -q
    mv "$T/a" "$T/b"
    same "$T/b/run" 2
    "$MOEFW" export hf "$T/b/run" -o "$T/back"
    cmp folder/model-00003-of-00005.safetensors "$T/back/model-00003-of-00005.safetensors"
    # the run alone
    mv "$T/b" "$T/a"
    cp -r "$T/a/run" "$T/c/run"
    same "$T/c/run" 3
    # of two files the one beside the run is read, and it is another one
    cp -r folder "$T/c"
    printf '\x55' | dd of="$T/c/folder/model-00002-of-00005.safetensors" bs=1 seek=3000 conv=notrunc 2>/dev/null
    mv "$T/a" "$T/gone"
    ln -s "$T/c/run" "$T/run"
    refused "$T/c/folder/model-00002-of-00005.safetensors, which holds weights of this run, has changed"
    rm -r "$T/c/folder"
    refused "$T/c/folder/model-00001-of-00005.safetensors or $T/a/folder/model-00001-of-00005.safetensors, which"
}

@test "a list that lies is refused before anything is read" {
    cp -r run "$T/run"
    change() {
        cp run/stored.json "$T/run/stored.json"
        grep -q "$1" "$T/run/stored.json" || return 1
        sed -i "s/$1/$2/" "$T/run/stored.json"
    }
    change '"rows":64' '"rows":65'
    refused "stored.json"
    change '"ld":64' '"ld":6400000'
    refused "stored.json"
    change '"data":\[0,[0-9]*\]' '"data":[0,999999999]'
    refused "stored.json"
    change '"data":\[0,' '"data":[77,'
    refused "stored.json"
    change '"type":"BF16"' '"type":"BF17"'
    refused "a part has no known type"
    change '"in":64' '"in":9223372036854775807'
    refused "stored.json"
    for path in ../folder .. folder/../folder/x ./folder /folder folder//x folder/; do
        change '"beside":"folder[^"]*"' "\"beside\":\"${path//\//\\/}\""
        refused "expected files with path, bytes, changed and xxh128"
    done
    change '"version":1' '"version":2'
    refused "expected a list of stored weights of version 1"
}

@test "a device with memory of its own gets the bytes of the files, also for ops that it lacks" {
    strict=$builddir/tests/device
    [ -e "$strict/backend_strict.so" ] || make -s -C "$builddir" tests/device/backend_strict.so
    "$MOEFW" eval run --tokens "$MOE/golden.safetensors" --save "$T/cpu" >"$T/eval.cpu"
    for lacks in "" "stored_gemm stored_rows"; do
        MOEFW_PLUGIN_PATH=$strict MOEFW_STRICT_LACKS=$lacks "$MOEFW" eval run --device strict \
            --tokens "$MOE/golden.safetensors" --save "$T/strict$lacks" >"$T/eval.strict" 2>"$T/said"
        if [ -n "$lacks" ]; then grep -q stored_gemm "$T/said"; else [ ! -s "$T/said" ]; fi
        cmp "$T/eval.cpu" "$T/eval.strict"
        cmp "$T/cpu" "$T/strict$lacks"
    done
}
