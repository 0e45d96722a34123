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

@test "a run directory that is renamed or removed while training is an error" {
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

# lost FILE...: files of the run are removed while it trains; sets err
lost() {
    rm -rf run
    begin
    (cd run && until rm -rf "$@" 2>/dev/null; do :; done)
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 1 ]
}

@test "a run directory that is emptied while training is an error, and so is a file of the run that is missing" {
    mkdir run # lost removes it
    lost config.ini ckpt manifest.json metrics.jsonl memory.jsonl tokenizer.json weights.json
    grep -q 'run: the run.s folder was emptied while the run wrote to it: config.ini is gone' err
    lost manifest.json
    grep -q 'run: the run.s folder was emptied while the run wrote to it: manifest.json is gone' err
    for file in metrics.jsonl memory.jsonl; do
        lost $file
        grep -q "run/$file: the file was removed or replaced while the run wrote to it" err
    done
    # an editor that removes a file first disturbs no run
    rm -rf run
    begin
    cp run/config.ini .
    rm run/config.ini
    sleep 0.3
    cp config.ini run/
    sleep 0.5
    kill -0 "$pid"
    kill -TERM "$pid"
    wait "$pid" || true
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

# other FILE OFFSET: another byte there, and the time of change that the file had
other() {
    touch -r "$1" time
    printf '\1' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
    touch -r time "$1"
}

# changed FILE SET...: a run on the file notices another byte of it, and only that
changed() {
    rm -rf run
    "$MOEFW" train tiny.ini -q --out run --set "data.path=$1" "${@:2}"
    run "$MOEFW" train -q --resume run --steps 4
    [ "$status" -eq 0 ]
    [[ "$output" != *"other data"* ]]
    other "$1" 10000
    run "$MOEFW" train -q --resume run --steps 5
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning: resuming with other data than those of the checkpoint"* ]]
}

@test "one token that changed is noticed, in a token file, a mapped text and a text in memory" {
    "$MOEFW" data synth --out text.txt --force --bytes 1500000 >/dev/null
    cp text.txt ids.bin # two letters are an id of 16 bits
    changed ids.bin --set data.bin_bits=16
    changed text.txt --set data.tokenizer=byte --set data.cache=cache
    "$MOEFW" data synth --out text.txt --bytes 1500000 --force >/dev/null
    changed text.txt --set data.tokenizer=byte --set data.cache=no
    # the same tokens in another place are the same data
    run "$MOEFW" train -q --resume run --steps 6 --set data.cache=cache
    [ "$status" -eq 0 ]
    [[ "$output" != *"other data"* ]]
}

@test "of token files over 1 GiB pieces are compared, and the time of change is told" {
    printf '\1\0\2\0\3\0\4\0' >big.bin
    truncate -s 1025M big.bin
    export XDG_CACHE_HOME=$PWD/cache
    "$MOEFW" train tiny.ini -q --out run --data big.bin --set data.tokenizer= --set train.eval_every=0 --set train.final_batches=2
    run "$MOEFW" train --resume run --steps 4
    [ "$status" -eq 0 ]
    [[ "$output" != *"other data"* && "$output" != *"since the checkpoint"* ]]
    touch -d '1 hour ago' big.bin
    run "$MOEFW" train --resume run --steps 5
    [ "$status" -eq 0 ]
    [[ "$output" != *"other data"* && "$output" == *"the files of the data were written since the checkpoint"* ]]
    other big.bin 0
    run "$MOEFW" train --resume run --steps 6
    [[ "$output" != *"other data"* ]] # it was 1 before
    other big.bin 2
    run "$MOEFW" train --resume run --steps 6
    [[ "$output" == *"warning: resuming with other data than those of the checkpoint"* ]]
}

@test "whatever reads a run refuses a checkpoint of another run, and a run without manifest.json says that nothing tells" {
    "$MOEFW" train tiny.ini -q --out run
    "$MOEFW" train tiny.ini -q --out other --set train.seed=5 --set train.steps=9 --set train.keep_best=yes
    mkdir run/best
    cp -r other/ckpt/step-9 run/ckpt/
    cp -r other/best/step-* run/best/
    for args in "eval run" "generate run --tokens 2" "trace record run -o t.safetensors" "eval run/best" "eval run --step 9" \
        "swap run --router hash" "train tiny.ini -q --out new --set train.from=run" "train tiny.ini -q --out new --set train.from=run/best"; do
        run "$MOEFW" $args
        [ "$status" -eq 3 ] || { echo "$args: $status $output"; return 1; }
        [[ "$output" == *": a checkpoint of another run ("* ]]
    done
    "$MOEFW" eval run --step 3
    rm run/manifest.json
    run "$MOEFW" train -q --resume run --set train.steps=10
    [ "$status" -eq 0 ]
    [[ "$output" == *"warning: run/manifest.json is missing: nothing tells whether the checkpoint is of this run"* ]]
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

@test "a damaged step in the metrics costs its line, not those behind it, and a missing line is told" {
    "$MOEFW" train tiny.ini -q --out run --set train.steps=9 --set train.log_every=1
    cp run/metrics.jsonl whole
    sed -i '2s/"step":[0-9]*/"step":91/' run/metrics.jsonl
    run "$MOEFW" train -q --resume run --set train.steps=10
    [ "$status" -eq 0 ]
    [[ "$output" == *"run/metrics.jsonl: 1 damaged line between valid ones"* ]]
    [[ "$output" != *missing* ]]
    sed 2d whole >rest
    sed 2d run/metrics.jsonl | head -n "$(wc -l <rest)" | cmp - rest
    # the last line: it looks as if it were behind the checkpoint, or as if it were damaged
    for damage in 's/"step":10/"step":95/' 's/"step"/"sXep"/'; do
        cp -r run copy
        sed -i "\$$damage" copy/metrics.jsonl
        all=$(wc -l <copy/metrics.jsonl)
        run "$MOEFW" train -q --resume copy
        [ "$status" -eq 0 ]
        [[ "$output" == *"copy/metrics.jsonl: 1 of the $all lines up to step 10 are missing"* ]]
        rm -r copy
    done
    # lines behind the checkpoint go without a word
    rm -r run/ckpt/step-10
    run "$MOEFW" train -q --resume run
    [ "$status" -eq 0 ]
    [[ "$output" != *missing* && "$output" != *removed* ]]
}

@test "resume removes what a killed process left" {
    "$MOEFW" train tiny.ini -q --out run --set train.keep_best=yes
    mkdir run/best/step-1.gone.tmp run/ckpt/step-9.tmp
    touch run/config.ini.4711-0.tmp run/manifest.json.4711-12.tmp run/mine.tmp run/samples/step-2.json.1-0.tmp
    mkdir run/trace
    touch run/trace/step-4.safetensors.tmp run/trace/mine.safetensors.tmp run/trace/step-x.safetensors.tmp
    run "$MOEFW" train -q --resume run --set train.steps=4
    [ "$status" -eq 0 ]
    [[ "$output" == *"config.ini.4711-0.tmp: removed"* ]]
    [[ "$output" == *"run/trace/step-4.safetensors.tmp: removed"* ]]
    [ "$(find run -name '*.tmp' | sort | tr '\n' ' ')" = "run/mine.tmp run/trace/mine.safetensors.tmp run/trace/step-x.safetensors.tmp " ]
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

# key NAME: its value in run/config.ini
key() {
    sed -n "s/^$1 = //p" run/config.ini
}

@test "what a resumed run does otherwise is in its files, and told with the old value" {
    "$MOEFW" train tiny.ini -q --out run
    was=$("$MOEFW" export mlflow run -o before | tail -n 1 && ls before/*)
    run "$MOEFW" train run --resume --steps 5
    [ "$status" -eq 0 ]
    [[ "$output" == *"after step 3 train.steps = 5 (before: 3); config.ini says so now"* ]]
    [ "$(key steps)" = 5 ]
    grep -q '"steps":5,' run/manifest.json
    "$MOEFW" train run/config.ini -q --out again
    [ -d again/ckpt/step-5 ]
    run "$MOEFW" train run --resume -q --steps 7 --seed 77 --set train.batch=3 --set train.clip=7 --set train.from=again
    [ "$status" -eq 0 ]
    [[ "$output" == *"after step 5 train.seed = 77 (before: 1), for the order of data and dropout"* ]]
    [[ "$output" == *"after step 5 train.batch = 3 (before: 2)"* ]]
    [[ "$output" == *"train.clip=7 has no effect: the run continues with the checkpoint's train.clip = 1"* ]]
    [[ "$output" == *"train.from=$PWD/again has no effect: the run has weights of its own"* ]]
    [[ "$output" == *"run/config.ini now describes how the run goes on"* ]]
    [ "$(key steps) $(key seed) $(key batch) $(key clip)" = "7 77 3 1" ]
    [ "$(key from)" = '""' ]
    grep -q '"seed":77,"steps":7,' run/manifest.json
    grep -qF '{"step":5,"option":"train.batch","from":"2","to":"3"}' run/manifest.json
    grep -qF '{"step":3,"option":"train.steps","from":"3","to":"5"}' run/manifest.json
    # the name of the run stays: it can be resumed, and exported under the id that it had
    "$MOEFW" train run --resume -q --steps 8
    [ "$(ls run/ckpt | tail -n 1)" = step-8 ]
    [ "$("$MOEFW" export mlflow run -o after | tail -n 1 && ls after/*)" = "${was//before/after}" ]
}

@test "a resume that changes nothing leaves the files as they are" {
    "$MOEFW" train tiny.ini -q --out run
    rm -r run/ckpt/step-3
    echo step-2 >run/ckpt/latest
    cp run/config.ini run/manifest.json .
    run "$MOEFW" train run --resume --steps 3 --set train.batch=2 --set expert.plugin=swiglu
    [ "$status" -eq 0 ]
    [[ "$output" != *before* ]]
    cmp config.ini run/config.ini
    cmp manifest.json run/manifest.json
    # all steps are done: batches of another size are no part of the run
    run "$MOEFW" train run --resume -q --set train.batch=4
    [ "$status" -eq 0 ]
    [[ "$output" == *"train.batch=4 has no effect: all steps of the run are done"* ]]
    cmp config.ini run/config.ini
}

@test "a resumed run keeps its model: other keys of it are refused, and nothing is touched" {
    "$MOEFW" train tiny.ini -q --out run
    cp -r run copy
    for set in moe.top_k=1 moe.capacity_factor=1.5 model.dim=32 model.rope_theta=500 router.plugin=hash \
        router.noise=normal expert.hidden=64 adapter.lora.rank=2 model.head_gates=yes task.more.task=regress train.optimizer=adam; do
        run "$MOEFW" train run --resume --steps 5 --set "$set"
        [ "$status" -eq 2 ] || { echo "$set: $status: $output"; return 1; }
        diff -r -x .lock run copy
    done
    run "$MOEFW" train run --resume --set moe.top_k=1
    [[ "$output" == *"--set: moe.top_k: found 1, expected 2: a run that is resumed keeps the model"*"train.from = run"* ]]
    run "$MOEFW" train run --resume --set router.plugin=nosuch
    [ "$status" -eq 2 ]
    [[ "$output" == *"--set: unknown router plugin 'nosuch'"* ]]
    # what is added to training alone is allowed, if it has no state that the checkpoint lacks
    "$MOEFW" train run --resume -q --steps 4 --set regularizer.z.plugin=z_loss
    grep -qx '\[regularizer.z\]' run/config.ini
    grep -qF '"option":"regularizer.z.plugin"' run/manifest.json
    "$MOEFW" train run --resume -q --steps 5 --set regularizer.z.plugin=none
    run grep -x '\[regularizer.z\]' run/config.ini
    [ "$status" -eq 1 ]
    run "$MOEFW" train run --resume --steps 6 --set controller.c.plugin=sentinel
    [ "$status" -eq 2 ]
    [[ "$output" == *"the run is resumed with a new section [controller.c]: "*"no tensor controller.c.entropy"* ]]
    [ "$(key steps)" = 5 ]
}

@test "a plugin that has moved is the same plugin" {
    mkdir p q
    cp "$builddir/plugins/routers/hash.so" p/
    "$MOEFW" train tiny.ini -q --out run --plugin "$PWD/p/hash.so"
    mv p/hash.so q/
    run "$MOEFW" train run --resume -q --steps 4
    [ "$status" -ne 0 ]
    run "$MOEFW" train run --resume --plugin "$PWD/q/hash.so"
    [ "$status" -eq 0 ]
    [[ "$output" != *warning* ]]
    [[ "$output" == *"after step 3 router.plugin = $PWD/q/hash.so (before: $PWD/p/hash.so)"* ]]
    grep -qx "plugin = $PWD/q/hash.so" run/config.ini
    "$MOEFW" train run --resume -q --steps 4 --plugin "$PWD/q/hash.so"
}

@test "train.keep above 2^32 keeps that many checkpoints" {
    "$MOEFW" train tiny.ini -q --out run --set train.keep=4294967297
    [ "$(ls -d run/ckpt/step-* | wc -l)" = 3 ]
}

# edit SCRIPT: changes run/config.ini by hand
edit() {
    sed -i "$1" run/config.ini
}

@test "what somebody writes into config.ini is a change like one of the command line" {
    printf '%s\n' '[regularizer.old]' plugin=z_loss >>tiny.ini
    "$MOEFW" train tiny.ini -q --out run
    id=$("$MOEFW" export mlflow run -o before | tail -n 1 && ls before/*)
    cp -r run whole
    # the model stays
    for key in top_k=1 capacity_factor=1.5 dim=32; do
        edit "s/^${key%=*} = .*/${key%=*} = ${key#*=}/"
        line=$(grep -n "^${key%=*} = " run/config.ini | cut -d : -f 1)
        run "$MOEFW" train run --resume --steps 5
        [ "$status" -eq 2 ]
        [[ "$output" == *"run/config.ini:$line: "*".${key%=*}: found ${key#*=}, expected "*": a run that is resumed keeps the model"* ]]
        cmp run/manifest.json whole/manifest.json
        cp whole/config.ini run/
    done
    edit 's/^plugin = linear/plugin = nosuch/'
    run "$MOEFW" train run --resume --steps 5
    [ "$status" -eq 2 ]
    [[ "$output" == *"run/config.ini:$(grep -n nosuch run/config.ini | cut -d : -f 1): "*"'nosuch'"* ]]
    cp whole/config.ini run/
    # what takes effect is told and kept; what does not is told and undone; a comment is nothing
    edit 's/^seed = .*/seed = 77/; s/^batch = .*/batch = 3/; s/^lr = .*/lr = 0.5/; s/^clip = 1$/clip = 1.0/; 1a; mine'
    edit '/^\[regularizer.old\]/,/^$/d'
    printf '%s\n' '[regularizer.new]' plugin=z_loss weight=0.25 >>run/config.ini
    run "$MOEFW" train run --resume -q --steps 5
    [ "$status" -eq 0 ]
    [[ "$output" == *"after step 3 train.steps = 5 (before: 3)"* ]]
    [[ "$output" == *"after step 3 train.seed = 77 (before: 1), for the order of data and dropout"* ]]
    [[ "$output" == *"after step 3 train.batch = 3 (before: 2)"* ]]
    [[ "$output" == *"after step 3 with a new section [regularizer.new]"* ]]
    [[ "$output" == *"after step 3 without [regularizer.old]"* ]]
    [[ "$output" == *"train.lr=0.5 has no effect: the run continues with the checkpoint's train.lr = 0.001"* ]]
    [[ "$output" == *"run/config.ini was changed by hand: what has no effect is undone there"* ]]
    [[ "$output" != *clip* ]]
    [ "$(key steps) $(key seed) $(key batch) $(key lr)" = "5 77 3 0.001" ]
    grep -qx '\[regularizer.new\]' run/config.ini
    [ "$(grep -c 'regularizer.old' run/config.ini)" = 0 ]
    for change in '"train.seed","from":"1","to":"77"' '"train.batch","from":"2","to":"3"' \
        '"regularizer.old.plugin","from":"z_loss","to":"none"' '"regularizer.new.weight","to":"0.25"'; do
        grep -qF "{\"step\":3,\"option\":$change}" run/manifest.json
    done
    [ "$("$MOEFW" export mlflow run -o after | tail -n 1 && ls after/*)" = "${id//before/after}" ]
    # told once
    cp run/manifest.json run/config.ini .
    run "$MOEFW" train run --resume -q
    [ "$status" -eq 0 ]
    [[ "$output" != *"has no effect"* && "$output" != *before* ]]
    cmp run/manifest.json manifest.json
    cmp run/config.ini config.ini
    # an option that says what the file said before; all steps are done
    edit 's/^clip = .*/clip = 7/; s/^weight_decay = .*/weight_decay = 7/; s/^warmup = .*/warmup = 7/; s/^seed = .*/seed = 99/; /^\[regularizer.new\]/,/^$/d'
    printf '%s\n' '[regularizer.late]' plugin=z_loss >>run/config.ini
    run "$MOEFW" train run --resume -q --set train.clip=1
    [ "$status" -eq 0 ]
    [[ "$output" == *"train.warmup=7 has no effect: all steps of the run are done"* ]]
    [[ "$output" == *"regularizer.late.plugin=z_loss has no effect"* ]]
    [[ "$output" != *clip* && "$output" == *"is undone there"* ]]
    cmp run/manifest.json manifest.json
    cmp run/config.ini config.ini
}

@test "a process that is killed between config.ini and manifest.json: the next one finds the change" {
    "$MOEFW" train tiny.ini -q --out run --set train.keep=9
    cp run/manifest.json .
    "$MOEFW" train run --resume -q --steps 5 --set train.batch=3
    cp run/manifest.json after.json
    rm -r run/ckpt/step-4 run/ckpt/step-5
    cp manifest.json run/
    run "$MOEFW" train run --resume -q
    [ "$status" -eq 0 ]
    [[ "$output" == *"after step 3 train.batch = 3 (before: 2); config.ini says so now"* ]]
    cmp run/manifest.json after.json
    # a run of an earlier version does not say what config.ini was
    sed -i 's/"config":"\([^"\\]\|\\.\)*",//' run/manifest.json
    edit 's/^batch = .*/batch = 4/; s/^top_k = .*/top_k = 1/'
    run "$MOEFW" train run --resume -q
    [ "$status" -eq 0 ]
    [ -z "$(grep -E 'before|effect' <<<"$output")" ]
}
