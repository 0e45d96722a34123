# moefw verify: results that are repeated: same bits, within rounding, different; falsified results.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data" OMP_WAIT_POLICY=passive
    mkdir -p "$BATS_FILE_TMPDIR/w/data" "$BATS_FILE_TMPDIR/w/own"
    cd "$BATS_FILE_TMPDIR/w" || return 1
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s ", substr("the quick brown fox jumps over a lazy dog again", i * 7 % 40 + 1, 5); print "" }' >data/text.txt
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -o own/handicap.so "$srcdir/tests/plugins/third_party/handicap.c" -lm
    "$MOEFW" compare default -t 2 --data data/text.txt --set data.tokenizer=char --set model.layers=1 --set model.dim=32 \
        --set train.batch=2 --set train.log_every=5 --set train.save_every=20 --set train.eval_every=30 --set train.eval_batches=2 \
        --routers linear,mlp --seeds 3 --steps 60 -o cmp -q >/dev/null
}
setup() { cd "$BATS_FILE_TMPDIR/w" || return 1; }

# verify ARGUMENT...: in a new folder, without progress
verify() {
    rm -rf out
    "$MOEFW" verify "$@" -o out -t 1 -q
}

# falsify RESULT SED NEW: changes the text and makes its hash anew
falsify() {
    sed "$2" "$1" | tr -d '\n' | sed 's/"self":"[0-9a-f]*"}$/"self":""}/' | tr -d '\n' >"$3.empty"
    if cmp -s <(sed 's/"self":"[0-9a-f]*"}$/"self":""}/' "$1" | tr -d '\n') "$3.empty"; then return 1; fi
    hash=$(sha256sum "$3.empty")
    sed "s/\"self\":\"\"}\$/\"self\":\"${hash%% *}\"}/" "$3.empty" >"$3"
}

@test "whole runs have the same bits with another number of threads" {
    run --separate-stderr verify cmp/result.json --data data --seeds 6
    [ "$status" -eq 0 ] || { echo "$output $stderr"; return 1; }
    [[ "$output" == "table      6 runs, 1 test: computed again, equal"* ]]
    [[ "$output" == *"input      path text.txt: ok"*"input      router mlp: ok"* ]]
    [ "$(grep -c '^run .* steps 1 to 60: same bits, [0-9]* values$' <<<"$output")" -eq 6 ]
    [[ "$output" == *"VERIFIED: 6 of 6 runs, 6 of them whole, same bits" ]]
    grep -q '"format":"moefw-verified"' out/verified.json
    grep -qF "\"result\":\"$(tail -c 67 cmp/result.json | head -c 64)\"" out/verified.json
}

@test "the result names no path and no host" {
    ! grep -qF -e "$BATS_FILE_TMPDIR" -e "$(uname -n)\"" -e "$HOME/" cmp/result.json || false
    grep -q '"inputs":\[{"section":"data","key":"path","name":"text.txt","bytes":'"$(wc -c <data/text.txt)"',"sha256":"'"$(sha256sum data/text.txt | cut -d' ' -f1)" cmp/result.json
}

@test "a configuration of others opens no file but the inputs, and sends nothing" {
    falsify cmp/result.json 's|\[data\]\\n|&val_path = /etc/hostname\\n|g; s|\\nval_path = \\"\\"||g' bad.json
    run --separate-stderr verify bad.json --data data
    [ "$status" -eq 3 ]
    [[ "$output" == *"input      val_path /etc/hostname: a file that is not among the inputs of the result"* ]]
    # relative, without a slash, and a plugin by its path, however the line is spelt
    cp data/text.txt secret
    falsify cmp/result.json 's|\[data\]\\n|&val_path=secret\\n|g; s|\\nval_path = \\"\\"||g' bad.json
    run --separate-stderr verify bad.json --data data
    [[ "$status" -eq 3 && "$output" == *"val_path secret: a file that is not among the inputs"* ]]
    falsify cmp/result.json 's|plugin = swiglu|  plugin=./own/handicap.so|g' bad.json
    run --separate-stderr verify bad.json --data data
    [[ "$status" -eq 3 && "$output" == *"plugin ./own/handicap.so: a file that is not among the inputs"* ]]
    # keys of a machine are dropped, in what is written and in what is read
    falsify cmp/result.json 's|\[data\]\\n|[log]\\nmlflow = http://127.0.0.1:9\\n&|g' bad.json
    run --separate-stderr verify bad.json --data data --steps 5
    [ "$status" -eq 0 ]
    ! grep -q mlflow out/run-1.ini || false
    ! grep -qE 'threads = |mlflow|time_limit' cmp/result.json || false
    # nor does the reader's own file add a section
    mkdir -p "$XDG_CONFIG_HOME/moefw"
    printf '[regularizer.more]\nplugin = entropy\nweight = 1\n' >"$XDG_CONFIG_HOME/moefw/moefw.ini"
    run --separate-stderr verify cmp/result.json --data data --steps 5
    rm "$XDG_CONFIG_HOME/moefw/moefw.ini"
    [[ "$status" -eq 0 && "$output" == *"same bits"* ]]
    falsify cmp/result.json 's|\[data\]\\n|no section|g' bad.json
    run --separate-stderr verify bad.json --data data
    [ "$status" -ne 0 ]
}

@test "a prefix; runs are drawn, or chosen by router and seed" {
    run --separate-stderr verify cmp/result.json --data data --steps 20 --router mlp --seed 2
    [ "$status" -eq 0 ]
    [[ "$output" == *"run        mlp seed 2, steps 1 to 20: same bits"*"VERIFIED IN PART: 1 of 6 runs, 0 of them whole, same bits" ]]
    [ -d out/run-1/ckpt/step-20 ]
    [ ! -e out/run-1/ckpt/step-60 ]
    run verify cmp/result.json --data data --seed 4
    [ "$status" -eq 3 ]
    [[ "$output" == *"the result has no run of this router and seed"* ]]
}

@test "other kernels: the first steps of a run or of a segment agree within rounding" {
    export MOEFW_KERNELS=ref
    run --separate-stderr verify cmp/result.json --data data --router mlp --seed 2
    [ "$status" -eq 0 ]
    [[ "$output" == *"steps 1 to 60: same within rounding"*"first: step "*": the file says "*"steps up to 20 were compared"* ]]
    run --separate-stderr verify cmp/result.json --data data --from cmp/mlp/seed-2/ckpt/step-40
    [ "$status" -eq 0 ]
    [[ "$output" == *"run        mlp seed 2, steps 41 to 60: same within rounding"* ]]
    unset MOEFW_KERNELS
    run --separate-stderr verify cmp/result.json --data data --from cmp/linear/seed-1 --steps 10
    [ "$status" -eq 0 ]
    [[ "$output" =~ run\ +linear\ seed\ 1,\ steps\ (21\ to\ 30|41\ to\ 50):\ same\ bits ]]
    run verify cmp/result.json --data data --router mlp --from cmp/linear/seed-1
    [ "$status" -eq 1 ]
    [[ "$output" == *"no checkpoint in cmp/linear/seed-1, but for that of the last step, has the hashes of a checkpoint of the result"* ]]
}

@test "a changed file is refused; with a hash made anew, what is false is named" {
    sed 's/"seed":2/"seed":9/' cmp/result.json >bad.json
    run verify bad.json --data data
    [ "$status" -eq 3 ]
    [[ "$output" == *'"self": expected the SHA-256 of the text at its end'* ]]
    # a number of the table
    falsify cmp/result.json 's/"mean":\([0-9]\)\.[0-9]*/"mean":\1.25/' bad.json
    run verify bad.json --data data
    [ "$status" -eq 1 ]
    [[ "$output" == *"the table is not that of the runs: router linear: mean: the file says "*".25, its runs give "* ]]
    falsify cmp/result.json 's/"verdict":"no difference shown"}\]/"verdict":"better"}]/' bad.json
    run verify bad.json --data data
    [ "$status" -eq 1 ]
    [[ "$output" == *"router mlp: the file says better, its runs give no difference shown"* ]]
    # a loss of a run
    falsify cmp/result.json 's/\[5,\([0-9]\)\.\([0-9]\)/[5,\1.0\2/' bad.json
    run --separate-stderr verify bad.json --data data --router linear --seed 1
    [ "$status" -eq 1 ]
    [[ "$output" == *"DIFFERENT"*"first: step 5: loss: the file says "*", here "* ]]
    [[ "$stderr" == *"the result is not what this program computes: linear seed 1, steps 1 to 60: step 5: loss"* ]]
    grep -q '"how":"different"' out/verified.json
    # one bit in the last place, on the same kernels
    falsify cmp/result.json 's/"lines":"./"lines":"x/' bad.json
    run verify bad.json --data data --router linear --seed 1
    [[ "$status" -eq 1 && "$output" == *"the losses are equal, but not the hash of all lines of metrics"* ]]
    falsify cmp/result.json 's/{"step":60,"weights":"./{"step":60,"weights":"x/' bad.json
    run verify bad.json --data data --router linear --seed 1
    [[ "$status" -eq 1 && "$output" == *"the metrics are equal, but not the weights of step 60"* ]]
    # a run that is missing, a seed that is missing
    falsify cmp/result.json 's/"router":"mlp","seed":2/"router":"other","seed":2/' bad.json
    run verify bad.json --data data
    [[ "$status" -eq 1 && "$output" == *"router mlp: expected 3 runs, found 2"* ]]
    falsify cmp/result.json 's/"router":"mlp","seed":3/"router":"mlp","seed":4/' bad.json
    run verify bad.json --data data
    [[ "$status" -eq 1 && "$output" == *"expected seeds that follow one another, found 4 after 2"* ]]
    # levels that allow everything
    falsify cmp/result.json 's/"looks":\[\[3,0.05/"looks":[[3,0.9/' bad.json
    run verify bad.json --data data
    [[ "$status" -eq 1 && "$output" == *"looks: expected levels with a sum below .1"* ]]
}

@test "one byte of the data, another plugin, missing inputs: named, status 3" {
    mkdir -p wrong
    sed 's/q/Q/' data/text.txt >wrong/text.txt
    run --separate-stderr verify cmp/result.json --data wrong
    [ "$status" -eq 3 ]
    [[ "$output" == *"input      path text.txt: no file with its SHA-256 in the folder of --data"* ]]
    [[ "$stderr" == *"inputs are missing"* ]]
    mkdir -p elsewhere/deep
    cp data/text.txt elsewhere/deep/renamed
    verify cmp/result.json --data elsewhere --steps 5 >/dev/null
    falsify cmp/result.json 's/\("name":"mlp","version":"1.0","sha256":"[0-9a-f]*","code":"\)./\1x/g' bad.json
    run --separate-stderr verify bad.json --data data --router mlp
    [[ "$status" -eq 3 && "$output" == *"input      router mlp: another file here"* ]]
    run verify data/text.txt
    [ "$status" -eq 3 ]
    run verify cmp/comparison.json
    [[ "$status" -eq 3 && "$output" == *'expected "format":"moefw-result"'*"found none" ]]
}

@test "a plugin that was built elsewhere or stripped is the same; one with other code is not" {
    mlp=$(find "$builddir/plugins" -name mlp.so -path '*routers*')
    mkdir -p plugins/routers
    cp "$mlp" plugins/routers/mlp.so
    objcopy -S --remove-section=.comment plugins/routers/mlp.so || skip "objcopy fails"
    ! cmp -s "$mlp" plugins/routers/mlp.so || false
    MOEFW_PLUGIN_PATH=$PWD/plugins run --separate-stderr verify cmp/result.json --data data --router mlp --steps 5
    [ "$status" -eq 0 ] || { echo "$output $stderr"; return 1; }
    [[ "$output" == *"input      router mlp: ok"*"same bits"* ]]
    MOEFW_PLUGIN_PATH=$PWD/plugins "$MOEFW" plugin list | grep -qF "[$PWD/plugins/routers/mlp.so]" # that file, not another one
    # a letter of a text that the plugin holds
    LC_ALL=C sed 's/input_norm/input_nprm/' "$mlp" >plugins/routers/mlp.so
    ! cmp -s "$mlp" plugins/routers/mlp.so || false
    MOEFW_PLUGIN_PATH=$PWD/plugins run --separate-stderr verify cmp/result.json --data data --router mlp --steps 5
    [ "$status" -eq 3 ]
    [[ "$output" == *"input      router mlp: another file here"* ]]
}

@test "a single run; a plugin of others is loaded from --plugins alone, and by its hash" {
    "$MOEFW" train default -t 1 -q --data data/text.txt --set data.tokenizer=char --set model.layers=1 --set model.dim=32 \
        --set train.batch=2 --set train.log_every=5 --set train.steps=20 --plugin own/handicap.so --set router.plugin=own/handicap.so --out single
    "$MOEFW" export result single
    run "$MOEFW" export result single
    [ "$status" -eq 2 ] # it is there
    run --separate-stderr verify single/result.json --data data
    [ "$status" -eq 3 ]
    [[ "$output" == *"input      plugin handicap.so: no file with its SHA-256 in the folder of --plugins"* ]]
    run --separate-stderr verify single/result.json --data data --plugins own
    [ "$status" -eq 0 ] || { echo "$output $stderr"; return 1; }
    [[ "$output" == *"run        seed 1, steps 1 to 20: same bits"*"VERIFIED: 1 of 1 run, 1 of them whole, same bits" ]]
    # another plugin under the same name is not loaded
    mkdir -p false
    ${CC:-cc} -std=gnu11 -O0 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -o false/handicap.so "$srcdir/tests/plugins/third_party/handicap.c" -lm
    run --separate-stderr verify single/result.json --data data --plugins false
    [ "$status" -eq 3 ]
}

@test "a run that was stopped and resumed verifies like one that was not" {
    words=(-t 1 -q --data data/text.txt --set data.tokenizer=char --set model.layers=1 --set model.dim=32 --set train.batch=2
        --set train.log_every=5 --set train.steps=20 --set train.save_every=10)
    run "$MOEFW" train default "${words[@]}" --set train.stop_at=10 --out halves
    [ "$status" -eq 75 ]
    [[ "$output" == *"stopped by train.stop_at at step 10"* ]]
    [ -d halves/ckpt/step-10 ]
    [ ! -e halves/ckpt/step-20 ]
    "$MOEFW" train halves --resume -q -t 1 --set train.stop_at=0 >/dev/null
    "$MOEFW" export result halves
    run --separate-stderr verify halves/result.json --data data
    [[ "$status" -eq 0 && "$output" == *"VERIFIED: 1 of 1 run, 1 of them whole, same bits" ]]
}

@test "on two ranks by --launch, with a plugin of others; a launcher that is missing or fails is named" {
    . "$srcdir/tests/lib/ranks.bash"
    words=(-t 1 -q --data data/text.txt --set data.tokenizer=char --set model.layers=1 --set model.dim=32 --set train.batch=2
        --set train.log_every=5 --set train.steps=20 --plugin own/handicap.so --set router.plugin=own/handicap.so)
    "$MOEFW" train default "${words[@]}" --out one
    "$MOEFW" export result one
    run --separate-stderr verify one/result.json --data data --plugins own --launch '/nowhere/mpirun -n 2'
    [[ "$status" -eq 1 && "$stderr" == *"cannot start /nowhere/mpirun for a run"* ]]
    run --separate-stderr verify one/result.json --data data --plugins own --launch ' '
    [[ "$status" -eq 2 && "$stderr" == *"--launch: expected the words of a launcher, as 'mpirun -n 2'"* ]]
    ranks_setup
    "$MOEFW" train default "${words[@]}" --set train.accumulate=2 --out two
    "$MOEFW" export result two
    run --separate-stderr verify two/result.json --data data --plugins own --launch "$mpirun -n 2" 3>&-
    [ "$status" -eq 0 ] || { echo "$output $stderr"; return 1; }
    [[ "$output" == *"VERIFIED: 1 of 1 run, 1 of them whole, same bits" ]]
    # a result with one micro-batch a step
    run --separate-stderr verify one/result.json --data data --plugins own --launch "$mpirun -n 2" 3>&-
    [[ "$status" -eq 1 && "$stderr" == *"2 ranks, but train.accumulate = 1: each rank needs a micro-batch"* ]]
}

@test "fresh seeds: the mean difference lies in the interval, or the status is 1" {
    run --separate-stderr verify cmp/result.json --data data --seeds 0 --fresh 2
    [[ "$output" == *"fresh      mlp, 2 seeds: mean difference "*", expected "*" to "* ]]
    # m +- t s sqrt(1/n + 1/N), from the 95 % interval of the table, m +- t s / sqrt(n), n = 3, N = 2
    read -r lo hi <<<"$(grep -o '"router":"mlp","baseline":false.*' cmp/comparison.json | grep -o '"diff_ci95":\[[^]]*' | cut -d'[' -f2 | tr ',' ' ')"
    tr ',{}' '\n\n\n' <out/verified.json | awk -F: -v lo="$lo" -v hi="$hi" -v status="$status" '
        { v[$1] = $2 }
        END {
            middle = (lo + hi) / 2; half = (hi - lo) / 2 * sqrt(3) * sqrt(1 / 3 + 1 / 2)
            a = v["\"lo\""] - (middle - half); b = v["\"hi\""] - (middle + half); m = v["\"mean\""]
            inside = m >= v["\"lo\""] && m <= v["\"hi\""]
            exit !(a * a < 1e-16 && b * b < 1e-16 && inside == (status == 0))
        }'
    [ -e out/fresh-2-baseline/metrics.jsonl ]
    grep -qE '"fresh":\{"router":"mlp","n":2,"mean":[-0-9.e]+,"lo":' out/verified.json
    run verify single/result.json --data data --fresh 1 --seeds 0
    [ "$status" -eq 2 ]
    [[ "$output" == *"--fresh: expected the result of a comparison"* ]]
}

@test "nothing is written over, JSON, and only the check of the file" {
    mkdir -p there
    run "$MOEFW" verify cmp/result.json --data data -o there -q
    [[ "$status" -eq 2 && "$output" == *"--out there: expected a new folder"* ]]
    run --separate-stderr verify cmp/result.json --seeds 0
    [[ "$status" -eq 0 && "$output" == *"CHECKED: the file and its table; no run was repeated" ]]
    [ ! -e out ]
    run --separate-stderr verify cmp/result.json --data data --steps 5 --json
    [[ "$status" -eq 0 && "$output" == '{"format":"moefw-verified","result":"'*'"how":"same","same_kernels":true,'* ]]
}
