# moefw runs: the list, its order, choices, ranks, differences and removal; a report of a folder; the
# list of presets.

bats_require_minimum_version 1.5.0

setup_file() {
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || exit 1
    small=(-q -t 1 --set data.path='builtin:topics?bytes=20000' --set model.layers=1 --set model.dim=16
        --set model.heads=2 --set model.seq=16 --set expert.hidden=16 --set moe.experts=4
        --set train.batch=2 --set train.eval_batches=1 --set train.eval_context=0)
    "$MOEFW" train "${small[@]}" --steps 20 >&2
    "$MOEFW" train "${small[@]}" --steps 10 --set router.plugin=mlp --set train.lr=0.001 >&2
    "$MOEFW" train "${small[@]}" --steps 40 --seed 7 --out runs/more/long >&2
    cp -r runs/default-1 runs/cut # a run that was stopped: its metrics end before its steps
    sed -i 's/"steps":20/"steps":200/' runs/cut/manifest.json
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp -r "$BATS_FILE_TMPDIR/runs" runs
}

# listed ARGUMENTS: the names of the runs, in the order of the list
listed() {
    "$MOEFW" runs --json "$@" | grep -o '"run":"[^"]*"' | cut -d'"' -f4 | tr '\n' ' '
}

@test "tokens are those that were trained, as metrics.jsonl counts them: padding is none" {
    for i in 1 2 3 4 5 6 7 8 9; do
        printf '{"text":"a text of %s words or more, to be learned"}\n{"text":"short %s"}\n' $i $i
    done >texts.jsonl
    "$MOEFW" train default -q -t 1 --data texts.jsonl --set model.layers=1 --set model.dim=16 \
        --set model.heads=2 --set model.seq=64 --set train.eval_context=0 --set train.batch=2 \
        --steps 6 --out padded >&2
    trained=$(grep '"split":"train"' padded/metrics.jsonl | tail -n 1 | grep -o '"tokens":[0-9]*')
    [ "${trained#*:}" -lt 768 ] # 6 steps of 2 x 64
    [[ "$("$MOEFW" runs padded --json)" == *",$trained,"* ]]
    run "$MOEFW" runs padded --where "tokens=${trained#*:}"
    [ "$status" -eq 0 ]
}

@test "the list has every run of the folder, with its values" {
    [ "$(listed)" = "runs/cut runs/default-1 runs/default-2 runs/more/long " ]
    [ "$(listed runs/)" = "$(listed)" ]
    [ "$(listed runs/default-2 runs/cut)" = "runs/default-2 runs/cut " ]
    one=$("$MOEFW" runs runs/default-2 --json)
    loss=$("$MOEFW" eval -q -t 1 runs/default-2 --json | grep -o '"task_loss":[^,]*' | cut -d: -f2)
    [[ "$one" == '[{"run":"runs/default-2","router":"mlp","step":10,"val_loss":'"$loss"',"bits_per_byte":'* ]]
    [[ "$one" == *',"params":15060,"tokens":320,"seed":1,"finished":true,"data":"builtin:topics?bytes=20000","tokenizer":"byte","best_step":null,"best":true}]' ]]
    # runs of other data have a best of their own, and a column that says so
    cp -r runs/default-1 runs/other
    sed -i 's/^path = .*/path = other.txt/' runs/other/config.ini
    [ "$("$MOEFW" runs --json | grep -o '"best":true' | wc -l)" -eq 2 ]
    "$MOEFW" runs | grep -qE '^run( .*)? data( |$)'
    "$MOEFW" runs | grep -q '^runs/other \*  *other.txt'
    [ "$("$MOEFW" runs | tail -1)" = "* best of the same data by bits_per_byte; 5 runs" ]
    [[ "$("$MOEFW" runs --rank bits_per_byte | tail -1)" == *"their ranks do not compare" ]]
    rm -r runs/other
    [[ "$("$MOEFW" runs runs/cut --json)" == *'"finished":false'* ]]
    # the table: 80 columns, the best run marked
    "$MOEFW" runs >table
    [ "$(awk 'length > 79' table)" = "" ]
    grep -q '^runs/more/long \*  *linear  *40 ' table
    [ "$(tail -1 table)" = "* best by bits_per_byte; 4 runs" ]
    COLUMNS=40 "$MOEFW" runs >small.txt
    [ "$(awk 'length > 39' small.txt)" = "" ]
    [ "$(grep -c '^runs/cut ' small.txt)" -ge 3 ]
}

@test "runs are sorted, chosen and ranked by any key" {
    [ "$(listed --sort step)" = "runs/default-2 runs/cut runs/default-1 runs/more/long " ]
    [ "$(listed --sort step --reverse | cut -d' ' -f1)" = runs/more/long ]
    [ "$(listed --where router=mlp)" = "runs/default-2 " ]
    [ "$(listed --where 'router != mlp' --where 'step>=40')" = "runs/more/long " ]
    [ "$(listed --where train.lr=1e-3)" = "runs/default-2 " ]
    [ "$(listed --where 'moe.0.load_cv>0' --where finished=no)" = "runs/cut " ]
    [ "$(listed --where 'step>100')" = "" ]
    [ "$("$MOEFW" runs --where 'step>100')" = "no run meets the conditions" ]
    [ "$(listed --rank val_loss | cut -d' ' -f1)" = runs/more/long ]
    [ "$(listed --rank tokens | cut -d' ' -f1)" = runs/more/long ] # more is better
    "$MOEFW" runs --rank val_loss --show ppl,train.lr >table
    grep -q '^runs/more/long \*.* 1$' table
    grep -q ' ppl' table
    run "$MOEFW" runs --where router
    [ "$status" -eq 2 ]
    run "$MOEFW" runs --sort nothing
    [ "$status" -eq 2 ]
    [[ "$output" == *"'nothing': no run here has it; expected run, router, "* ]]
    [[ "$output" != *"did you mean"* ]]
    run "$MOEFW" runs --where rooter=linear
    [ "$status" -eq 2 ]
    [[ "$output" == *"'rooter': no run here has it; did you mean 'router'? expected run, "* ]]
    run "$MOEFW" runs --sort train.lrr
    [[ "$output" == *"did you mean 'train.lr'?"* ]]
}

@test "a folder without runs has an empty list, one that is missing is an error" {
    rm -r runs
    mkdir runs empty
    [ "$("$MOEFW" runs)" = "no runs here: the folder runs has none; 'moefw train' makes one" ]
    [ "$("$MOEFW" runs --json)" = "[]" ]
    [ "$("$MOEFW" runs empty)" = "no runs here: the folder has none" ]
    [ "$("$MOEFW" runs empty --json)" = "[]" ]
    [ "$("$MOEFW" runs empty --json --where train.lr=1 --sort step)" = "[]" ]
    run "$MOEFW" runs missing --json
    [ "$status" -eq 3 ]
}

@test "folders of a comparison are no runs, those in them are" {
    mkdir -p c1/linear
    cp runs/default-1/config.ini c1/linear
    cp -r runs/default-1 c1/linear/seed-1
    [ "$(listed c1)" = "c1/linear/seed-1 " ]
    [ "$(listed c1/linear)" = "c1/linear/seed-1 " ]
}

@test "the best of runs with different tokenizers is found in bits per byte" {
    # 5 bits a byte in long tokens is better than 6.8 in bytes, although the loss is higher
    sed -i 's/"task_loss":[^,]*/"task_loss":9/g; s/"bits_per_byte":[^,]*/"bits_per_byte":5/g' \
        runs/default-2/metrics.jsonl
    "$MOEFW" runs | grep -q '^runs/default-2 \*'
    "$MOEFW" runs --rank val_loss | grep -q '^runs/more/long \*'
}

@test "the difference of configurations shows the keys that differ, and no others" {
    "$MOEFW" runs runs/default-1 runs/more/long --diff >diff
    [ "$(sed 1d diff | awk '{print $1, $2, $3}')" = "train.steps 20 40
train.seed 1 7" ]
    "$MOEFW" runs runs/default-1 runs/default-2 --diff --json |
        grep -q '{"key":"router.plugin","values":{"runs/default-1":"linear","runs/default-2":"mlp"}}'
    [ "$("$MOEFW" runs runs/default-1 runs/cut --diff)" = "the configurations of 2 runs are the same" ]
}

@test "runs are removed after a question, and only those that were chosen" {
    run "$MOEFW" runs --remove
    [ "$status" -eq 2 ]
    [[ "$output" == *"expected the runs to remove, or --where"* ]]
    run "$MOEFW" runs runs/cut --remove </dev/null
    [ "$status" -eq 2 ]
    [[ "$output" == *"--yes removes without a question"* ]]
    [ -d runs/cut ]
    if command -v script >/dev/null; then # a terminal, on which the answer is no, then yes
        echo n | script -qec "'$MOEFW' runs runs/cut --remove" /dev/null >told
        grep -q 'remove 1 run? \[y/N\]' told
        [ -d runs/cut ]
        echo y | script -qec "'$MOEFW' runs runs/cut --remove" /dev/null >told
        [ ! -e runs/cut ]
    fi
    "$MOEFW" runs --where router=mlp --remove --yes -q
    [ "$(listed --where router=linear --where seed=7)" = "runs/more/long " ]
    [ ! -e runs/default-2 ]
    [ -d runs/default-1 ]
}

@test "a start that fails leaves no folder; --remove says of what is no run that it is none" {
    sed 's/"linear"/"refusing"/; s/^static int route(.*/static int unused(void) { return 0; }\n&/' \
        "$srcdir/plugins/routers/linear.c" |
        awk '/^static int route\(/ { inside = 1 } { print } inside && /^{/ { print "    return mf->fail(ctx, MF_ESHAPE, \"not today\");"; inside = 0 }' >refusing.c
    ${CC:-cc} -std=gnu11 -w -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -o refusing.so refusing.c -lm
    run "$MOEFW" train default -q -t 1 --plugin ./refusing.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"not today"* ]]
    [ ! -e runs/default-3 ]
    run "$MOEFW" train default -q -t 1 --plugin ./refusing.so --out new
    [ ! -e new ]
    mkdir there # what was there before stays
    run "$MOEFW" train default -q -t 1 --plugin ./refusing.so --out there
    [ -d there ]
    [ -z "$(ls -A there)" ]
    mkdir runs/left
    : >runs/left/.lock
    run "$MOEFW" runs --remove runs/left -y
    [ "$status" -eq 3 ]
    [[ "$output" == *"runs/left: no run: it holds only the lock of a start that failed"* ]]
    run "$MOEFW" runs --remove there -y
    [[ "$output" == *"there: there is no run in this folder"* ]]
    run "$MOEFW" runs --remove runs -y
    [[ "$output" == *"expected the runs to remove"* ]]
}

@test "a run that a process is writing to is not removed" {
    "$MOEFW" train --resume runs/default-1 -q -t 1 --steps 100000 >out 2>&1 3>&- &
    for _ in $(seq 100); do
        [ "$(wc -l <runs/default-1/metrics.jsonl)" -gt 30 ] && break
        sleep 0.1
    done
    run "$MOEFW" runs runs/default-1 --remove --yes
    kill -TERM $!
    wait $! || true
    [ "$status" -eq 1 ]
    [[ "$output" == *"is writing to this run"* ]]
    [ -d runs/default-1/ckpt ]
}

@test "a report of a folder has all its runs" {
    [ "$("$MOEFW" report -q runs)" = runs/report.html ]
    for name in cut default-1 default-2 long; do
        grep -q ">$name<" runs/report.html || { echo "$name"; return 1; }
    done
    "$MOEFW" report -q runs/more runs/default-1 --out two.html
    grep -q '>long<' two.html
    run ! grep -q '>default-2<' two.html
    mkdir empty
    run "$MOEFW" report empty
    [ "$status" -eq 3 ]
    [ "$output" = "moefw: empty: there is no run in this folder" ]
}

@test "before the first run the list is empty, which is no error" {
    mkdir fresh && cd fresh
    run "$MOEFW" runs
    [ "$status" -eq 0 ]
    [ "$output" = "no runs here: there is no folder runs; 'moefw train' makes it" ]
    [ "$("$MOEFW" runs --json)" = "[]" ]
    run "$MOEFW" runs runs
    [ "$status" -eq 3 ]
}

@test "every preset is listed on one line with what it is for" {
    "$MOEFW" presets >list
    [ "$(awk 'length > 79 || NF < 3' list)" = "" ]
    [ "$(awk '{print $1}' list)" = "$("$MOEFW" config presets)" ]
    "$MOEFW" presets --json | grep -q '{"preset":"switch","brief":"a small Switch Transformer"}'
}
