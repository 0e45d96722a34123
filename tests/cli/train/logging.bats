# log.tensorboard: event files that grow with the run, also over a resume; they never
# change or end a run.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

# small_train WORDS...: a run of a few seconds
small_train() {
    "$MOEFW" train -q --set model.layers=1 --set model.dim=32 --set model.seq=32 --set train.eval_context=0 --set train.batch=4 \
        --set moe.experts=4 --set expert.hidden=32 --set train.eval_every=10 --set train.save_every=10 \
        --set train.eval_batches=2 --set train.final_batches=2 --set report.enabled=no "$@"
}

@test "TensorBoard: one file for each split and start, and the same run" {
    small_train --out a --steps 20 --set log.tensorboard=yes
    [ "$(find a/tensorboard/train a/tensorboard/val -name 'events.out.tfevents.*' | wc -l)" -eq 2 ]
    file=$(find a/tensorboard/val -type f)
    [ "$(grep -aoc 'brain.Event:2' "$file")" -eq 1 ]
    grep -aq 'bits_per_byte' "$file"
    grep -aq 'moe/0.load_cv' "$file"
    grep -aq 'histograms' "$file"
    grep -aq 'plugin = linear' a/tensorboard/train/events.out.tfevents.*
    small_train --out b --steps 20
    [ ! -e b/tensorboard ]
    cut_times() { sed -E 's/"(tokens_per_s|wall_s)":[^,]*,//g' "$1"; }
    [ "$(cut_times a/metrics.jsonl)" = "$(cut_times b/metrics.jsonl)" ]
    "$MOEFW" train a --resume -q --set train.steps=30 --set log.tensorboard=yes
    [ "$(find a/tensorboard/train -type f | wc -l)" -eq 2 ]
    [ "$(find a/tensorboard/val -type f | wc -l)" -eq 2 ]
}

@test "TensorBoard: files that cannot be written are told once, and the run goes on" {
    small_train --out b --steps 10
    touch b/tensorboard
    run "$MOEFW" train b --resume --set train.steps=30 --set log.tensorboard=yes --set report.enabled=no
    [ "$status" -eq 0 ]
    [ "$(printf '%s\n' "$output" | grep -c 'no more events for TensorBoard')" -eq 1 ]
    grep -q '"step":30,"split":"val"' b/metrics.jsonl
}
