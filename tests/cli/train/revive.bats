# The controller `revive`: runs in which experts are copied have the same bits after a resume and on
# ranks, in f32 and bf16.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# often OUT WORDS...: a run in which many experts are idle
often() {
    thin "$1" default "${@:2}" --set moe.experts=8 --set router.init_std=1 --set regularizer.balance.plugin=none \
        --set controller.r.plugin=revive --set controller.r.patience=2 --set controller.r.threshold=0.5
    words=("${words[@]/#-q/-v}")
}

@test "a resume has the same bits, also of bf16 copies and of moments that optimizers keep apart" {
    for more in train.dtype=f32 train.dtype=bf16 train.optimizer=muon train.optimizer=adafactor; do
        rm -rf one half
        # the first experts are copied in step 3, just before the checkpoint
        often one --set $more
        words+=(--set controller.r.patience=3)
        "$MOEFW" "${words[@]}" 2>one.log
        [ "$(grep -c 'layer [01]: expert [0-7] gets the weights of expert [0-7]' one.log)" -ge 2 ] || { cat one.log; false; }
        often half --set $more
        words+=(--set controller.r.patience=3)
        "$MOEFW" "${words[@]}" --steps 3 2>half.log
        "$MOEFW" train half --resume -q -t 1 --steps 6
        cmp one/ckpt/step-6/model.safetensors half/ckpt/step-6/model.safetensors
        cmp one/ckpt/step-6/state.safetensors half/ckpt/step-6/state.safetensors
    done
}

@test "layers with different numbers of experts" {
    often one --set block.1.experts=4
    words+=(--set controller.r.threshold=0.9)
    "$MOEFW" "${words[@]}" 2>one.log
    grep -q 'layer 0: expert [0-7] gets the weights of expert [0-7]' one.log
    grep -q 'layer 1: expert [0-3] gets the weights of expert [0-3]' one.log
    often half --set block.1.experts=4
    words+=(--set controller.r.threshold=0.9)
    "$MOEFW" "${words[@]}" --steps 3 2>half.log
    "$MOEFW" train half --resume -q -t 1 --steps 6
    cmp one/ckpt/step-6/model.safetensors half/ckpt/step-6/model.safetensors
}

@test "ranks copy the same experts" {
    ranks_setup
    often one
    "$MOEFW" "${words[@]}" 2>/dev/null
    often two
    ranks 2 "${words[@]}" 2>/dev/null
    same one two
}

@test "routers without a row for each expert, and shared layers, are refused by name" {
    often a --set router.plugin=mlp
    run "$MOEFW" "${words[@]}"
    [ "$status" -eq 2 ] || [ "$status" -eq 4 ]
    [[ "$output" == *"the router of layer "*" has no weight of 8 rows: expected copy_router = no"* ]] || { echo "$output"; false; }
    often b --set router.plugin=mlp --set controller.r.copy_router=no
    "$MOEFW" "${words[@]}" 2>/dev/null
    often c --set model.share_layers=yes
    run "$MOEFW" "${words[@]}"
    [[ "$output" == *"model.share_layers = no"* ]] || { echo "$output"; false; }
}
