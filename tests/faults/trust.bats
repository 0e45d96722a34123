# What resume and a run must not take on trust: a folder that is gone, options without effect,
# damaged lines of metrics, files that a killed process left; and signals that the caller ignores.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    head -c 3000 "$srcdir/README.md" >text.txt
    printf '%s\n' '[model]' dim=16 layers=1 heads=2 seq=16 '[moe]' experts=2 '[data]' path=text.txt \
        '[train]' batch=2 steps=3 eval_context=8 eval_every=2 eval_batches=2 save_every=1 keep=2 >tiny.ini
    export OMP_NUM_THREADS=1
}

# Trains in the background, quietly, until the first checkpoint is there.
begin() {
    "$MOEFW" train tiny.ini -q --steps 1000000 --out run "$@" 2>err 3>&- &
    pid=$!
    for _ in {1..600}; do
        [ -e run/ckpt/latest ] && return
        sleep 0.1
    done
    false
}

@test "a run folder that is renamed or removed while training is an error" {
    begin --set train.keep_best=yes --set trace.every=1
    mv run elsewhere
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 1 ]
    grep -q 'run: the run.s folder was removed, renamed or replaced' err
    [ ! -e run ]
    rm -rf elsewhere
    begin
    until rm -rf run 2>/dev/null; do :; done
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 1 ]
}

@test "resume names an option that the checkpoint overrides" {
    "$MOEFW" train tiny.ini -q --out run --set train.lr=0.001
    run "$MOEFW" train -q --resume run --set train.steps=4 --set train.lr=0.5
    [ "$status" -eq 0 ]
    [[ "$output" == *"train.lr=0.5 has no effect: the run continues with the checkpoint's train.lr = 0.001"* ]]
}

@test "resume refuses a checkpoint of another run, and names data that changed" {
    "$MOEFW" train tiny.ini -q --out run
    "$MOEFW" train tiny.ini -q --out other --set train.seed=5 --set train.steps=9
    cp -r other/ckpt/step-9 run/ckpt/
    run "$MOEFW" train -q --resume run --set train.steps=12
    [ "$status" -eq 3 ]
    [[ "$output" == *"run/ckpt/step-9: a checkpoint of another run ("*"train.from"* ]]
    [ -e run/ckpt/step-9 ]
    rm -r run/ckpt/step-9
    run "$MOEFW" train -q --resume run --set train.steps=4
    [ "$status" -eq 0 ]
    [ -z "$(grep resuming <<<"$output")" ]
    sed -i 's/the/teh/g' text.txt
    run "$MOEFW" train -q --resume run --set train.steps=5
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning: resuming with other data than those of the checkpoint"* ]]
}

@test "resume keeps the metrics behind a damaged line" {
    "$MOEFW" train tiny.ini -q --out run
    before=$(wc -l <run/metrics.jsonl)
    last=$(tail -n 1 run/metrics.jsonl)
    sed -i '2s/^{"step"/{"sXep"/' run/metrics.jsonl
    run "$MOEFW" train -q --resume run
    [ "$status" -eq 0 ]
    [[ "$output" == *"run/metrics.jsonl: 1 damaged line between valid ones"* ]]
    [ "$(wc -l <run/metrics.jsonl)" -ge "$before" ]
    grep -qxF -- "$last" run/metrics.jsonl
}

@test "resume removes what a killed process left" {
    "$MOEFW" train tiny.ini -q --out run --set train.keep_best=yes
    mkdir run/best/step-1.gone.tmp run/ckpt/step-9.tmp
    touch run/config.ini.4711-0.tmp run/manifest.json.4711-12.tmp run/mine.tmp run/samples/step-2.json.1-0.tmp
    run "$MOEFW" train -q --resume run --set train.steps=4
    [ "$status" -eq 0 ]
    [[ "$output" == *"config.ini.4711-0.tmp: removed"* ]]
    [ "$(find run -name '*.tmp')" = run/mine.tmp ]
}

@test "a loop of symbolic links is a bad input" {
    ln -s loop loop
    run "$MOEFW" train tiny.ini --data loop --out run
    [ "$status" -eq 3 ]
    [[ "$output" == *"Too many levels of symbolic links"* || "$output" == *"Symbolic link loop"* ]] # musl's
}

@test "an ignored SIGINT stays ignored, and SIGTERM stops" {
    begin # a shell without job control starts background processes with SIGINT ignored
    kill -INT "$pid"
    sleep 1
    kill -0 "$pid"
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 143 ]
}
