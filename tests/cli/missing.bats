# Names of runs, presets and files that do not exist, over all verbs: one wording for each kind,
# exit code 3 for runs and input, 2 for a configuration; and what the path of a run may be.

bats_require_minimum_version 1.5.0

setup_file() {
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" train -q -t 1 --out runs/small-1 --set data.path='builtin:topics?bytes=20000' \
        --set model.layers=1 --set model.dim=16 --set model.heads=2 --set model.seq=16 \
        --set expert.hidden=16 --set moe.experts=4 --set train.batch=2 --set train.steps=8 \
        --set train.save_every=4 --set train.keep=9 --set train.eval_batches=1 \
        --set train.eval_context=0 >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp -r "$BATS_FILE_TMPDIR/runs" runs
    run=runs/small-1
}

# table STATUS MESSAGE: each line of standard input is a command line that ends so
table() {
    local line words
    while read -r line; do
        read -ra words <<<"$line"
        run --separate-stderr "$MOEFW" "${words[@]}"
        [ "$status" -eq "$1" ] || { echo "$line: status $status, expected $1: $stderr"; return 1; }
        [ "$stderr" = "moefw: $2" ] || { echo "$line: expected '$2', found: $stderr"; return 1; }
        [ -z "$output" ] || { echo "$line: printed $output"; return 1; }
    done
}

@test "a missing run" {
    table 3 "nothere: there is no such run" <<'END'
eval nothere
eval nothere --step 3
generate nothere
generate nothere --step 3
generate runs/small-1 --baseline nothere
bench infer nothere
report nothere
export csv nothere
export mlflow nothere
ckpt ls nothere
ckpt verify nothere
ckpt diff nothere runs/small-1
trace record nothere
train nothere --resume
train --resume --out nothere
END
    table 3 "--set: train.from: nothere: there is no such run" <<<"train --set train.from=nothere"
    table 3 "a/b: there is no such run" <<'END'
eval a/b
generate a/b
report a/b
END
}

@test "a missing run with a name like that of another" {
    table 3 "small-1: there is no such run; did you mean 'runs/small-1'?" <<'END'
eval small-1
generate small-1
report small-1
export csv small-1
ckpt ls small-1
trace record small-1
train small-1 --resume
END
    table 3 "runs/smal-1: there is no such run; did you mean 'runs/small-1'?" <<<"eval runs/smal-1"
    table 3 "smal-1: there is no such run; did you mean 'runs/small-1'?" <<<"eval smal-1"
}

@test "something that is no run" {
    mkdir folder
    table 3 "folder: not a run: expected a directory with config.ini" <<'END'
eval folder
generate folder
export csv folder
ckpt ls folder
trace record folder
train folder --resume
END
}

@test "a missing configuration" {
    presets=$("$MOEFW" doctor | sed -n 's/^presets  *//p')
    table 2 "nothere: there is no such file, and no such preset in $presets" <<'END'
train nothere
compare nothere
bench train nothere
config show nothere
config check nothere
graph nothere
END
    table 2 "defalt: there is no such file, and no such preset in $presets; did you mean 'default'?" <<'END'
train defalt
compare defalt
END
    table 2 "nothere.ini: there is no such file" <<'END'
train nothere.ini
compare nothere.ini
config show nothere.ini
config check nothere.ini
graph nothere.ini
END
}

@test "a missing file of input" {
    table 3 "nothere: there is no such file" <<'END'
data info nothere
trace diff nothere nothere
trace replay nothere runs/small-1
tokenize train char nothere --out t.json
tokenize encode byte nothere
tokenize encode nothere text
tokenize decode byte nothere
tokenize export nothere --out t.json
bench routers --activations nothere
generate runs/small-1 -f nothere
END
    table 3 "runs/small-1: --data: nothere: there is no such file" <<<"eval runs/small-1 --data nothere"
}

@test "a missing file of a configuration: its key, and where that is set" {
    printf 'text\n' >text
    table 3 "--data: data.path: nothere: there is no such file" <<<"train --data nothere"
    table 3 "--val-file: data.val_path: nothere: there is no such file" <<'END'
train --val-file nothere
train --data text --val-file nothere
END
    table 3 "--set: data.tokenizer: nothere.json: there is no such file" <<'END'
train --set data.tokenizer=nothere.json
END
    printf '[data]\npath = nothere\n' >my.ini
    table 3 "my.ini:2: data.path (--data FILE names another): nothere: there is no such file" <<'END'
train my.ini
compare my.ini
END
}

@test "a rule between two keys names the line of the one that was set" {
    printf '[include]\npreset = default\n[model]\ndim = 30\n' >my.ini
    table 2 "my.ini:4: 'heads' in [model]: expected a divisor of dim (30), or model.head_dim, found 4" \
        <<<"config show my.ini"
    table 2 "--set: 'heads' in [model]: expected a divisor of dim (30), or model.head_dim, found 4" \
        <<<"config show --set model.dim=30"
    table 2 "--set: 'top_k' in [moe]: expected at most as many as experts (1), found 2" \
        <<<"config show --set moe.experts=1"
    printf '[include]\npreset = default\n[moe]\nexperts = 1\n' >my.ini
    table 2 "my.ini:4: 'top_k' in [moe]: expected at most as many as experts (1), found 2" \
        <<<"config show my.ini"
}

@test "a path into a run: its configuration, its checkpoints" {
    newest=$("$MOEFW" eval -q -t 1 $run) four=$("$MOEFW" eval -q -t 1 $run --step 4)
    [[ "$newest" == "val after 8 steps: "*" tokens of builtin:topics"* && "$four" == "val after 4 steps: "* ]]
    for path in $run/ $run/config.ini $run/ckpt $run/ckpt/ $run/ckpt/step-8; do
        [ "$("$MOEFW" eval -q -t 1 "$path")" = "$newest" ] || { echo "$path"; return 1; }
    done
    [ "$("$MOEFW" eval -q -t 1 $run/ckpt/step-4)" = "$four" ]
    [ "$("$MOEFW" eval -q -t 1 $run/ckpt/step-4/ --step 4)" = "$four" ]
    one=$("$MOEFW" generate -q -t 1 $run --step 4 -n 9 --temp 0 -p a --json)
    two=$("$MOEFW" generate -q -t 1 $run/ckpt/step-4 -n 9 --temp 0 -p a --json)
    [[ "$one" == *'"step":4,'* && "${two/\/ckpt\/step-4/}" == "$one" ]]
    table 2 "$run/ckpt/step-4: the path names the checkpoint of step 4, found step 8, too" <<END
eval $run/ckpt/step-4 --step 8
generate $run/ckpt/step-4 --step 8
END
    table 3 "$run/ckpt: no valid checkpoint of step 99; there are those of the steps 8, 4" <<<"eval $run --step 99"
}

@test "a configuration is measured only as what it is" {
    table 2 "--step: default is a configuration, which has no checkpoints; expected a run" \
        <<<"eval default --step 3"
    cp $run/config.ini mine.ini # beside a run, not in one
    run --separate-stderr "$MOEFW" eval -t 1 mine.ini
    [ "$status" -eq 0 ]
    [[ "$output" == "val with initial weights: loss "* ]]
    [[ "$stderr" == "moefw: warning: mine.ini is a configuration, not a run: "*"'moefw train mine.ini' trains it"* ]]
}
