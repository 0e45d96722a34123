# Optimizers, schedules and early stopping, as a user meets them.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set_of=(--set model.layers=2 --set model.dim=32 --set model.seq=32 --set model.heads=2 --set expert.hidden=32
        --set moe.experts=4 --set train.batch=4 --set train.log_every=1 --set train.eval_every=4 --set train.eval_context=0
        --set train.eval_batches=2 --set train.final_batches=2 --set train.warmup=2 --set train.steps=8
        --set train.save_every=4 --set report.enabled=no)
}

# losses RUN: the losses of all steps
losses() {
    sed -n 's/.*"step":\([0-9]*\),.*"loss":\([0-9.e-]*\),.*/\1 \2/p' "$1/metrics.jsonl"
}

@test "every optimizer trains in f32 and bf16, with the same bits on one thread and after a resume" {
    for how in lion muon adafactor; do
        for type in f32 bf16; do
            args=(train default "${set_of[@]}" --set train.optimizer=$how --set train.dtype=$type -q)
            "$MOEFW" "${args[@]}" --set train.accumulate=2 -t 2 --out a
            "$MOEFW" "${args[@]}" --set train.accumulate=2 -t 1 --out b
            cmp a/ckpt/step-8/model.safetensors b/ckpt/step-8/model.safetensors
            cmp a/ckpt/step-8/state.safetensors b/ckpt/step-8/state.safetensors || {
                # only wall_s may differ
                [ "$(losses a)" = "$(losses b)" ]
            }
            rm -r b/ckpt/step-8
            echo step-4 >b/ckpt/latest
            "$MOEFW" train --resume b -q
            cmp a/ckpt/step-8/model.safetensors b/ckpt/step-8/model.safetensors
            [ -n "$(losses a)" ]
            [ "$(losses a)" = "$(losses b)" ]
            rm -r a b
        done
    done
}

@test "the loss falls with each optimizer" {
    for how in adamw=0.003 adam=0.003 lion=0.001 muon=0.003 adafactor=0.03; do
        "$MOEFW" train default "${set_of[@]}" --set train.steps=40 --set train.optimizer=${how%=*} \
            --set train.lr=${how#*=} -q --out "${how%=*}"
        first=$(losses "${how%=*}" | sed -n '1s/.* //p') last=$(losses "${how%=*}" | sed -n '$s/.* //p')
        echo "$how: $first $last"
        awk -v a="$first" -v b="$last" 'BEGIN { exit !(b < a - 1) }'
    done
}

@test "config check counts the memory of an optimizer" {
    memory() {
        "$MOEFW" config check default --set train.optimizer="$1" --set model.dim=256 --json |
            sed 's/.*"memory_mib":\([0-9]*\).*/\1/'
    }
    adamw=$(memory adamw) lion=$(memory lion) adafactor=$(memory adafactor)
    echo "$adamw $lion $adafactor"
    [ "$lion" -lt "$adamw" ]
    [ "$adafactor" -lt "$lion" ]
}

@test "a checkpoint of another optimizer is refused" {
    "$MOEFW" train default "${set_of[@]}" -q --out a
    run "$MOEFW" train --resume a --set train.optimizer=lion --steps 12
    [ "$status" -eq 2 ]
    [[ "$output" == *"train.optimizer: found lion, expected adamw"* ]]
    sed -i 's/^optimizer = adamw/optimizer = lion/' a/config.ini
    run "$MOEFW" train --resume a --steps 12
    [ "$status" -eq 2 ]
    [[ "$output" == *"a/config.ini:"*"train.optimizer: found lion, expected adamw"* ]]
    rm a/manifest.json # which knows what config.ini was
    run "$MOEFW" train --resume a --steps 12
    echo "$output"
    [ "$status" -eq 3 ]
    [[ "$output" == *"moment2/"*"of another optimizer or model"* ]]
}

@test "frozen parameters stay, with moments or without" {
    "$MOEFW" train default "${set_of[@]}" --set train.optimizer=muon --set 'train.freeze=*.expert.*' --steps 4 -q --out a
    "$MOEFW" train default "${set_of[@]}" --set train.optimizer=muon --set 'train.freeze=*.expert.*' --steps 4 \
        --set train.lr=0.1 -q --out b
    run "$MOEFW" ckpt diff a b
    echo "$output"
    [[ "$output" == *attention.qkv* ]]
    [[ "$output" != *expert.w* ]]
}

@test "schedule wsd: warmup, then constant, then down to lr_min" {
    "$MOEFW" train default "${set_of[@]}" --set train.schedule=wsd --set train.warmup=2 --set train.decay_share=0.5 \
        --set train.lr=0.004 --set train.lr_min=0 --set train.steps=10 -q --out a
    lr=$(sed -n 's/.*"split":"train".*"lr":\([0-9.e-]*\),.*/\1/p' a/metrics.jsonl | tr '\n' ' ')
    echo "$lr"
    # 0.004 (1 - sqrt(i / 4)) for the last four steps, i = 0 .. 3
    awk -v lr="$lr" 'BEGIN {
        n = split(lr, a, " "); split("0.002 0.004 0.004 0.004 0.004 0.004 0.004", b, " ")
        for (i = 1; i <= 7; i++) if (a[i] - b[i] > 1e-9 || b[i] - a[i] > 1e-9) exit 1
        for (i = 0; i < 4; i++) { d = a[7 + i] - 0.004 * (1 - sqrt(i / 4)); if (d > 1e-7 || d < -1e-7) exit 1 }
        exit n != 10
    }'
}

@test "train.patience ends training, keeps the best, says why, and goes on with more patience" {
    # With a learning rate of 0 no validation is better than the first.
    args=(train default "${set_of[@]}" --set train.lr=0 --set train.steps=40 --set train.patience=3 --set train.final_batches=3)
    run --separate-stderr "$MOEFW" "${args[@]}" --out a
    echo "$stderr"
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"training ended at step 16: no better validation in 3 (train.patience)"*"was at step 4"* ]]
    grep -q "^training ended at step 16" a/ended.txt
    [ -d a/best/step-4 ]
    [ -d a/ckpt/step-16 ]
    # each step has one validation; that of the last step is the long one, with the mean of the training losses
    [ "$(sed -nE 's/^\{"step":([0-9]+),"split":"val".*"train_loss":[0-9.]+.*/\1/p' a/metrics.jsonl | tr '\n' ' ')" = "4 8 12 16 " ]
    [ "$(sed -nE 's/.*"split":"val".*"tokens":([0-9]+).*/\1/p' a/metrics.jsonl | sort -nu | wc -l)" -eq 2 ]
    [ "$("$MOEFW" runs a --json | sed 's/.*"finished":\([a-z]*\).*/\1/')" = true ]
    # complete: a resume takes no step
    "$MOEFW" train --resume a -q
    [ ! -d a/ckpt/step-20 ]
    "$MOEFW" train --resume a --set train.patience=4 -q
    [ -d a/ckpt/step-20 ]
    grep -q "^training ended at step 20" a/ended.txt
    # killed before, it ends at the same step with the same bits
    "$MOEFW" "${args[@]}" --out b -q
    rm -r b/ckpt/step-16 b/ended.txt
    echo step-12 >b/ckpt/latest
    "$MOEFW" train --resume b -q
    [ -d b/ckpt/step-16 ]
    grep -q "^training ended at step 16" b/ended.txt
    cmp a/ckpt/step-16/model.safetensors b/ckpt/step-16/model.safetensors
}

@test "what cannot be is refused with the key" {
    run "$MOEFW" train default --set train.optimizer=mu0n
    [ "$status" -eq 2 ]
    [[ "$output" == *"'optimizer' in [train]"*"did you mean 'muon'"* ]]
    run "$MOEFW" train default --set train.patience=2 --set train.eval_every=0
    [ "$status" -eq 2 ]
    [[ "$output" == *patience*eval_every* ]]
}
