# Training as a user sees it: runs, the files they leave, stopping and resuming.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# small DIR WORDS...: trains a small model in DIR
small=(--set data.path=builtin:topics?bytes=60000 --set model.layers=2 --set model.dim=32
    --set model.seq=32 --set expert.hidden=32 --set train.batch=4 --set train.steps=24
    --set train.warmup=4 --set train.log_every=3 --set train.eval_every=8
    --set train.eval_batches=2 --set train.eval_context=0 --set train.save_every=5)
small() {
    dir=$1
    shift
    "$MOEFW" train -q --out "$dir" "${small[@]}" "$@"
}

# metrics DIR: the lines without times
metrics() {
    sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"
}

newest() {
    echo "$1/ckpt/$(cat "$1/ckpt/latest")"
}

# alike A B: equal tensors, state and metrics
alike() {
    cmp "$(newest "$1")/model.safetensors" "$(newest "$2")/model.safetensors" &&
        diff <(metrics "$1") <(metrics "$2")
}

@test "small stacks are enough: the limit is not asked for, and the program starts once" {
    short=(train -q -t 2 --set train.steps=1 --set model.layers=1 --set train.eval_batches=1
        --set report.enabled=no --set train.save_every=0)
    "$MOEFW" "${short[@]}" -o a
    (ulimit -S -s 256 && exec "$MOEFW" "${short[@]}" -o b)
    (ulimit -s 256 && exec "$MOEFW" "${short[@]}" --set train.dtype=bf16 -o c)
    cmp a/ckpt/step-1/model.safetensors b/ckpt/step-1/model.safetensors
    [ -e c/ckpt/step-1/model.safetensors ]
}

@test "a run leaves the files of the manual, and its last line is its path" {
    run small run
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = run ]
    for file in config.ini manifest.json metrics.jsonl tokenizer.json ckpt/latest routing_sample.json; do
        [ -s "run/$file" ] || { echo "no $file"; return 1; }
    done
    grep -q '"split":"val".*"bits_per_byte":' run/metrics.jsonl
    grep -q '"moe":\[{"layer":0,.*"load":\[' run/metrics.jsonl
    [[ "$(cat run/manifest.json)" == *'"plugins":'*'"linear"'* ]]
}

@test "the loss falls" {
    small run --set train.steps=150 --set train.lr=0.003
    first=$(grep '"split":"train"' run/metrics.jsonl | head -1 | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    last=$(grep '"split":"val"' run/metrics.jsonl | tail -1 | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    awk -v a="$first" -v b="$last" 'BEGIN { exit !(a > 5 && b < 2.6) }' || { echo "$first -> $last"; return 1; }
}

@test "config.ini of a run repeats it to the bit" {
    small a --set train.seed=7
    "$MOEFW" train -q --out b a/config.ini
    alike a b
}

# keys DIR: a line for each key of metrics.jsonl, with its value
keys() {
    grep -oE '"[^"]+":("[^"]*"|[^{"]*)' "$1/metrics.jsonl"
}

@test "two runs differ only in tokens_per_s and wall_s" {
    {
        printf 'sentence\tlabel\tscore\n'
        for i in $(seq 60); do
            printf 'a good and fine film %d\t1\t4.5\nthe dull and bad play %d\t0\t1.5\n' "$i" "$i"
        done
    } >labelled.tsv
    words=(--set model.attention=yes --set model.head_gates=yes --set moe.capacity_factor=1
        --set regularizer.even.plugin=load_balance --set controller.room.plugin=capacity
        --set train.eval_train=yes)
    number=(--set model.task=classify --set data.path=labelled.tsv --set data.format=tsv
        --set task.score.task=regress --set task.score.column=score)
    for kind in words number; do
        declare -n more=$kind
        rm -rf a b
        small a -t 1 "${more[@]}"
        small b -t 3 "${more[@]}"
        differing=$(diff <(keys a) <(keys b) | grep '^[<>]' | cut -d'"' -f2 | sort -u | paste -sd ' ')
        [ "$differing" = "tokens_per_s wall_s" ] || { echo "$kind: $differing"; return 1; }
        ! cmp -s a/memory.jsonl b/memory.jsonl || false # a difference would show here
    done
}

@test "one, two and four threads give the same bits" {
    small a -t 1
    small b -t 2
    small c -t 4
    alike a b
    alike a c
}

@test "the reference kernels train the same model up to rounding" {
    small a --set train.steps=4
    MOEFW_KERNELS=ref small b --set train.steps=4
    x=$(tail -1 a/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    y=$(tail -1 b/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    awk -v a="$x" -v b="$y" 'BEGIN { d = a - b; exit !(d < 1e-3 && d > -1e-3) }' || { echo "$x $y"; return 1; }
}

@test "a run stopped by its time limit exits 75 and resumes to the same bits" {
    small a
    run small b --set train.time_limit=0.001
    [ "$status" -eq 75 ]
    "$MOEFW" train -q --resume b --set train.time_limit=0
    alike a b
}

# begin: trains b, without an end, in the background; returns when it has made some steps
begin() {
    rm -rf b
    # A shell that is not interactive starts background commands with SIGINT ignored; nohup ignores SIGHUP.
    env --default-signal=INT,HUP "$MOEFW" train -q --out b "${small[@]}" --set train.steps=100000 2>err 3>&- &
    pid=$!
    for _ in $(seq 1000); do grep -qs '"step":3' b/metrics.jsonl && break; sleep 0.1; done
}

# by SIGNAL: it ended by that signal, and what it saved is whole
by() {
    status=0
    wait $pid || status=$?
    [ "$status" -eq $((128 + $(kill -l "$1"))) ] || { echo "status $status"; cat err; return 1; }
    "$MOEFW" ckpt verify b >/dev/null || "$MOEFW" ckpt verify "b/ckpt/$(cat b/ckpt/latest)"
}

@test "signals to stop save and end by that signal" {
    for signal in TERM INT HUP XCPU; do
        begin
        kill -$signal $pid
        by $signal
    done
}

@test "a stopped process goes on; the same signal twice ends it" {
    begin
    kill -STOP $pid
    lines=$(wc -l <b/metrics.jsonl)
    sleep 0.3
    kill -CONT $pid
    for _ in $(seq 1000); do [ "$(wc -l <b/metrics.jsonl)" -gt "$((lines + 1))" ] && break; sleep 0.1; done
    [ "$(wc -l <b/metrics.jsonl)" -gt "$((lines + 1))" ]
    kill -INT $pid
    kill -INT $pid || true # it may have ended by the first
    by INT
}

@test "resume names what computes otherwise" {
    small a --set train.steps=6
    run env MOEFW_ISA=generic "$MOEFW" train --resume a -q --steps 7
    [ "$status" -eq 0 ]
    if "$MOEFW" doctor | grep -qE '^ *kernels.*generic'; then
        [[ "$output" != *"set of kernels"* ]]
    else
        [[ "$output" == *"set of kernels"* ]]
    fi
}

@test "killed at random times, it resumes to the same bits" {
    small a --set train.steps=60
    n=${MOEFW_KILLS:-3}
    [ -n "$MOEFW_SLOW" ] && n=50
    for i in $(seq "$n"); do
        rm -rf b
        "$MOEFW" train -q --out b "${small[@]}" --set train.steps=60 2>err &
        pid=$!
        sleep "0.$((RANDOM % 90 + 5))"
        kill -KILL $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        tries=0
        until [ -f b/ckpt/latest ] && "$MOEFW" train -q --resume b 2>err; do
            # Killed before the first checkpoint: --resume reports that, and the run starts again.
            [ ! -f b/ckpt/latest ] || { cat err; return 1; }
            tries=$((tries + 1))
            [ $tries -lt 3 ] || { cat err; return 1; }
            rm -rf b
            small b --set train.steps=60
        done
        alike a b || { echo "kill $i"; return 1; }
    done
}

@test "a run that ends before its first checkpoint begins again by the same command" {
    small whole --set train.steps=6 --set train.save_every=4
    small a --set train.steps=6 --set train.save_every=4
    # as a kill in step 3 leaves it
    rm -rf a/ckpt a/report.html
    head -n 2 whole/metrics.jsonl >a/metrics.jsonl
    run "$MOEFW" train -q --resume a
    [ "$status" -eq 0 ]
    [[ "$output" == *"a: it ended before its first checkpoint, so it begins at step 0"* ]]
    cmp whole/ckpt/step-6/model.safetensors a/ckpt/step-6/model.safetensors
    [ "$(grep -c '"split":"train"' a/metrics.jsonl)" = "$(grep -c '"split":"train"' whole/metrics.jsonl)" ]
    # in the middle of the first save
    rm -rf a/ckpt/* && mkdir a/ckpt/step-4.tmp
    grep -E '^."step":[1-4],' whole/metrics.jsonl >a/metrics.jsonl
    "$MOEFW" train -q --resume a
    cmp whole/ckpt/step-6/model.safetensors a/ckpt/step-6/model.safetensors
    # only the lock is there, or nothing: a job script has one command
    cp a/config.ini one.ini
    for folder in new empty; do
        [ "$folder" = new ] || { mkdir empty && touch empty/.lock; }
        run "$MOEFW" train one.ini --resume --out "$folder"
        [ "$status" -eq 0 ]
        [[ "$output" == *"$folder: there is no run yet, so it begins"* ]]
        cmp whole/ckpt/step-6/model.safetensors "$folder/ckpt/step-6/model.safetensors"
    done
    run "$MOEFW" train --resume nosuch
    [ "$status" -eq 3 ]
    # all checkpoints damaged: nothing begins anew
    : >a/ckpt/step-6/model.safetensors
    : >a/ckpt/step-4/model.safetensors
    run "$MOEFW" train -q --resume a
    [ "$status" -eq 3 ]
    [[ "$output" == *"every checkpoint is damaged"* ]]
}

@test "a run whose checkpoints are gone never starts at step 0" {
    small a --set train.steps=2 --set train.save_every=0
    rm -rf a/ckpt
    run "$MOEFW" train -q --resume a
    [ "$status" -eq 3 ]
}

@test "controllers and live weights resume where they were" {
    live=(--set controller.warm.plugin=schedule --set controller.warm.target=router.temperature
        --set controller.warm.from=2 --set controller.warm.to=0.5
        --set controller.even.plugin=expert_bias --set controller.even.rate=0.01)
    small a "${live[@]}"
    small b "${live[@]}" --set train.time_limit=0.001 || true
    "$MOEFW" train -q --resume b --set train.time_limit=0
    alike a b
    grep -q '"turns":\[{"step":' a/metrics.jsonl
}

@test "another router by file, and metrics show it" {
    run "$MOEFW" --plugin routers/hash.so --steps 5 --out run "${small[@]}"
    [ "$status" -eq 0 ]
    "$MOEFW" --plugin routers/hadamard.so -q --steps 2 --out walsh "${small[@]}"
    grep -q '^plugin = .*hadamard' walsh/config.ini
    # The proposed command runs the same training with another router.
    next=$(grep -oE 'moefw train run/config.ini --plugin routers/[a-z_]*.so' <<<"$output")
    [[ "$next" != *hash.so ]]
    "$MOEFW" ${next#moefw } -q --steps 1 --out other
    grep -q '^plugin = .*hash' run/config.ini
    # Whatever the run's name is, the proposed command can be pasted into a shell.
    long=$(printf 'x%.0s' $(seq 240))
    run "$MOEFW" --steps 1 --out "it's/$long/$long/a run" "${small[@]}"
    next=$(grep -oE "moefw train .* --plugin routers/[a-z_]*.so" <<<"$output")
    eval "set -- $next"
    [ "$3" = "it's/$long/$long/a run/config.ini" ]
    next=$(grep -oE 'moefw generate .* -p "the "' <<<"$output")
    eval "set -- $next"
    [ "$3" = "it's/$long/$long/a run" ]
    # One expert per token, chosen by its id: the entropy is 0.
    grep -q '"entropy":0,' run/metrics.jsonl
}

@test "divergence exits 5 and reports where it began" {
    run small run --set train.lr=1000 --set train.clip=0 --set train.warmup=0 --set train.steps=60 \
        --set train.schedule=constant
    [ "$status" -eq 5 ] || { echo "$status $output"; return 1; }
    [[ "$output" == *"step "* ]]
}

@test "a directory in use or not empty is refused" {
    small run --set train.steps=1
    run small run --set train.steps=1
    [ "$status" -eq 2 ]
    [[ "$output" == *"--resume"* ]]
}

@test "capacity drops, reassignment moves, both are counted" {
    small a --set moe.capacity_factor=0.6 --set train.steps=3
    grep -qE '"drop_rate":0\.[1-9]' a/metrics.jsonl
    small b --set moe.capacity_factor=1.2 --set moe.overflow=reassign --set train.steps=3
    grep -qE '"reassigned":[1-9]' b/metrics.jsonl
}

@test "every router trains" {
    for so in "$(dirname "$MOEFW")"/plugins/routers/*.so; do
        name=$(basename "$so" .so)
        rm -rf run
        run small run --set router.plugin="$name" --set train.steps=3 --set moe.force_causal=yes
        [ "$status" -eq 0 ] || { echo "$name: $output"; return 1; }
        ! grep -q '"loss":null' run/metrics.jsonl || false
    done
}

@test "each batch of an evaluation draws numbers of its own" {
    small run --set router.plugin=random --set train.steps=1
    cv() { "$MOEFW" eval run --batches "$1" --json -t 1 | grep -oE '"load_cv":[0-9.e-]+' | head -n 1 | cut -d: -f2; }
    # Loads that are drawn anew get more even with the number of batches, as its square root.
    awk "BEGIN { exit !($(cv 40) < .4 * $(cv 1) && $(cv 1) > 0) }"
}

@test "eval --length: shorter windows are those of a run with a shorter model.seq" {
    loss() { grep -oE '"loss":[0-9.]+' | tail -n 1; }
    small long --set train.steps=2
    small short --set train.from=long --set train.lr=0 --set train.steps=1 --set model.seq=8
    "$MOEFW" eval long --length 8 --json -t 1 >given
    "$MOEFW" eval short --json -t 1 >own
    [ -n "$(loss <given)" ]
    [ "$(loss <given)" = "$(loss <own)" ]
    [ "$(loss <given)" != "$("$MOEFW" eval long --json -t 1 | loss)" ]
    run "$MOEFW" eval long --length 8
    [[ "$output" == *"val after 2 steps: loss "*" tokens of "*", in windows of 8)"* ]]
    run "$MOEFW" eval long --length 33
    [ "$status" -eq 2 ]
    [[ "$output" == *"--length=33: expected at most model.seq of the run, 32" ]]
    small context --set train.steps=1 --set train.eval_context=8
    run "$MOEFW" eval context
    [[ "$output" == *", in windows of 32 that overlap by 8)"* ]]
    run "$MOEFW" eval context --length 8
    [ "$status" -eq 2 ]
    [[ "$output" == *"--length=8: expected more than train.eval_context of the run, 8" ]]
}

@test "classification: accuracy and F1 beat the more frequent class" {
    for i in $(seq 60); do
        printf 'a good and fine film %d\t1\nthe dull and bad play %d\t0\n' "$i" "$i"
    done >labelled.tsv
    run "$MOEFW" train -q --out run "${small[@]}" --set model.task=classify \
        --set data.path=labelled.tsv --set data.format=tsv --set train.steps=80 --set train.lr=0.003
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    accuracy=$(tail -1 run/metrics.jsonl | sed -E 's/.*"accuracy":([0-9.]*).*/\1/')
    awk -v a="$accuracy" 'BEGIN { exit !(a > 0.9) }' || { echo "accuracy $accuracy"; return 1; }
    grep -q '"macro_f1":' run/metrics.jsonl
    run "$MOEFW" train -q --out mean "${small[@]}" --set model.task=classify --set model.pool=mean \
        --set data.path=labelled.tsv --set data.format=tsv --set train.steps=3
    [ "$status" -eq 0 ]
}

@test "masked tokens are predicted from both sides" {
    run small run --set model.task=mlm --set train.steps=6
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    grep -q '"split":"val"' run/metrics.jsonl
}

@test "experts with FiLM train, with a pair for each or one for all" {
    for mode in per_expert shared; do
        run small "$mode" --set film.mode=$mode --set train.steps=20
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    done
    ! cmp -s "$(newest per_expert)/model.safetensors" "$(newest shared)/model.safetensors" || false
    "$MOEFW" generate per_expert -q -p "the" -n 4 >/dev/null
}

@test "parameters that a controller froze stay frozen after a resume" {
    dir=$XDG_CONFIG_HOME/plugins/controllers
    mkdir -p "$dir"
    ${CC:-cc} -std=c11 -I"$srcdir/include" -I"$(dirname "$MOEFW")/include" -fPIC -fvisibility=hidden \
        -shared -o "$dir/freezer.so" "$srcdir/tests/plugins/third_party/freezer.c"
    export MOEFW_PLUGIN_PATH=$XDG_CONFIG_HOME/plugins
    small a --set controller.f.plugin=freezer --set train.save_every=1
    small b --set controller.f.plugin=freezer --set train.time_limit=0.001 || true
    for _ in 1 2 3 4; do # each resumes for one step
        "$MOEFW" train -q --resume b --set train.time_limit=0.001 || true
    done
    "$MOEFW" train -q --resume b --set train.time_limit=0
    alike a b
    # The router did not change after step 3.
    run "$MOEFW" ckpt diff a/ckpt/step-22 a/ckpt/step-24
    [[ "$output" == *"expert"* ]] && [[ "$output" != *"router"* ]] || { echo "$output"; return 1; }
}

# loss DIR: of the last validation
loss() {
    grep '"split":"val"' "$1/metrics.jsonl" | tail -1 | sed -E 's/.*"task_loss":([0-9.]*).*/\1/'
}

@test "bf16 trains like f32, and reports its type" {
    small a --set train.steps=60 --set train.lr=0.003
    small b --set train.steps=60 --set train.lr=0.003 --set train.dtype=bf16
    grep -q '"split":"val","dtype":"f32"' a/metrics.jsonl
    grep -q '"split":"val","dtype":"bf16"' b/metrics.jsonl
    grep -q '^dtype = bf16' b/config.ini
    ! cmp -s "$(newest a)/model.safetensors" "$(newest b)/model.safetensors" || false
    awk -v a="$(loss a)" -v b="$(loss b)" 'BEGIN { d = a - b; exit !(a < 5 && d * d < 0.0004 * a * a) }' ||
        { echo "f32 $(loss a), bf16 $(loss b)"; return 1; }
    "$MOEFW" eval b --dtype f32 >eval.txt
    "$MOEFW" eval b >eval.bf16
    ! cmp -s eval.txt eval.bf16 || false
    "$MOEFW" generate b -p "a" -n 5 --temp 0 -q >text.bf16
    "$MOEFW" generate a -p "a" -n 5 --temp 0 --dtype bf16 -q >text
    [ -s text ]
    [ -s text.bf16 ]
}

@test "a run in bf16 resumes to the same bits, at any number of threads" {
    small a --set train.dtype=bf16 -t 1
    run small b --set train.dtype=bf16 -t 2 --set train.time_limit=0.001
    [ "$status" -eq 75 ]
    "$MOEFW" train -q --resume b --set train.time_limit=0 -t 4
    alike a b
}

@test "shakespeare in bf16 ends within one part in a hundred of f32" {
    [ -n "$MOEFW_SLOW" ] || skip "slow"
    data=$MOEFW_DATA/tinyshakespeare.txt
    [ -s "$data" ] || skip "MOEFW_DATA names no folder with tinyshakespeare.txt"
    "$MOEFW" train shakespeare --data "$data" -q --out a
    "$MOEFW" train shakespeare --data "$data" -q --out b --set train.dtype=bf16
    awk -v a="$(loss a)" -v b="$(loss b)" 'BEGIN { d = a - b; exit !(d * d < 0.0001 * a * a) }' ||
        { echo "f32 $(loss a), bf16 $(loss b)"; return 1; }
}

@test "a run whose router is missing: the same exit code however its path is written" {
    small run --set train.steps=1
    sed -i 's/^plugin = linear$/plugin = nosuchrouter/' run/config.ini
    for path in run run// ./run/; do
        run "$MOEFW" eval "$path"
        [ "$status" -eq 3 ] || { echo "$path: $status: $output"; return 1; }
        [[ "$output" == *"config.ini:"*"unknown router plugin 'nosuchrouter'"* ]]
    done
}

# number FILE KEY: the last value of a key in the lines of validation
number() {
    grep '"split":"val"' "$1" | tail -1 | grep -oE "\"$2\":[0-9.]*" | head -1 | cut -d: -f2
}

@test "validations have the floor of the model's own window; report, eval and summary show it" {
    "$MOEFW" train --out run "${small[@]}" 2>log
    floor=$(number run/metrics.jsonl floor)
    # 6000 tokens in windows of 32, as data info computes it
    want=$("$MOEFW" data info "builtin:topics?bytes=60000" --window 32 --json | grep -oE '"floor_window":[0-9.]*' | cut -d: -f2)
    [ -n "$floor" ]
    [ "$floor" = "$want" ]
    # not that of all earlier text, which the manifest has
    past=$(grep -oE '"entropy_floor":[0-9.]*' run/manifest.json | cut -d: -f2)
    awk -v w="$floor" -v p="$past" 'BEGIN { exit !(w > 1.05 * p) }'
    # a validation on the way has that of its batches: 8 windows
    first=$(grep '"split":"val"' run/metrics.jsonl | head -1 | grep -oE '"floor":[0-9.]*' | cut -d: -f2)
    [ -n "$first" ]
    [ "$first" != "$floor" ]
    ! grep '"split":"train"' run/metrics.jsonl | grep -q '"floor"' || false
    short=$(printf %.4f "$floor")
    grep -q "x the entropy floor of $short in its windows" log
    grep -q "x the floor of $short" run/report.html
    run "$MOEFW" eval run
    [[ "$output" == *"entropy floor in windows of 32 $short: "* ]]
    [[ "$("$MOEFW" eval run --json)" == *"\"floor\":$floor,"* ]]
}

@test "no floor where none is known" {
    seq 4000 >numbers.txt
    small run --set data.path=numbers.txt --set train.steps=2
    ! grep -q '"floor"' run/metrics.jsonl || false
    small dealt --set data.stride=4 --set data.split_windows=yes --set train.steps=2
    ! grep -q '"floor"' dealt/metrics.jsonl || false
}

@test "the validation at the end has a limit, which is told; the speed is that of training" {
    small all
    "$MOEFW" train --out some "${small[@]}" --set train.final_batches=3 2>log
    grep -qx "the validation at the end takes the first 3 of [0-9]* batches; train.final_batches = 0 takes all" log
    # 3 batches of 4 windows of 32
    [ "$(number some/metrics.jsonl tokens)" = 384 ]
    # training is the same, and an evaluation later takes all
    [ "$(metrics all | grep '"split":"train"')" = "$(metrics some | grep '"split":"train"')" ]
    [ "$("$MOEFW" eval -q some --json | sed 's/"tokens_per_s.*//')" = "$("$MOEFW" eval -q all --json | sed 's/"tokens_per_s.*//')" ]
    # resumed at its end, the run evaluates as before
    rm some/ckpt/step-24 -r && echo step-20 >some/ckpt/latest
    "$MOEFW" train --resume some -q
    [ "$(number some/metrics.jsonl tokens)" = 384 ]
}

# The length of a vector behind a norm is sqrt(d) s / sqrt(s^2 + eps), nearly sqrt(d), for either norm.
@test "a priority by length is warned of, behind either norm" {
    few=(--set train.steps=1 --set moe.capacity_factor=1)
    for norm in rmsnorm layernorm; do
        run "$MOEFW" train "${small[@]}" "${few[@]}" --set moe.priority=importance --set model.norm=$norm --out "a-$norm"
        [ "$status" -eq 0 ]
        [[ "$output" == *"warning: moe.priority = importance: behind a norm"*"rounding errors"*"expected gate, time, drawn or position"* ]]
        [[ "$output" != *"model.norm"* ]]
    done
    run "$MOEFW" train "${small[@]}" "${few[@]}" --set moe.priority=gate --out gate
    [ "$status" -eq 0 ]
    [[ "$output" != *"warning"* ]]
    run "$MOEFW" train "${small[@]}" "${few[@]}" --set moe.priority=importance --set moe.capacity_factor=0 --out none
    [[ "$output" != *"warning"* ]]
}
