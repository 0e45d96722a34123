# moefw export: tables, and runs in the layout of MLflow's file store.

setup_file() {
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" train -q -t 1 --out run --set data.path='builtin:topics?bytes=20000' --set model.layers=2 \
        --set model.moe_every=2 --set model.dim=16 --set model.heads=2 --set model.seq=16 --set expert.hidden=16 \
        --set moe.experts=4 --set train.batch=2 --set train.steps=6 --set train.log_every=2 \
        --set train.eval_every=3 --set train.eval_batches=2 --set train.eval_context=0 >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp -r "$BATS_FILE_TMPDIR/run" run
}

# column NAME FILE: its cells, without the head
column() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; if (!at) exit 1; next } { print $at }' "$2"
}

# json KEY: its values in metrics.jsonl, empty if a line has none or null
json() {
    while read -r line; do
        grep -oE "\"$1\":[-+0-9.e]+" <<<"$line" | head -1 | cut -d: -f2 | grep . || echo
    done <run/metrics.jsonl
}

@test "csv: a line for each record, a column for each number, empty cells for missing ones" {
    "$MOEFW" export csv run >table.csv
    [ "$(wc -l <table.csv)" -eq $(($(wc -l <run/metrics.jsonl) + 1)) ]
    [[ "$(head -1 table.csv)" == "step,split,loss,task_loss,lr,"* ]]
    for key in step loss lr ppl ppl_batch_mean grad_norm wall_s; do
        [ "$(column $key table.csv)" = "$(json $key)" ] || { column $key table.csv; json $key; false; }
    done
    # of the MoE layer, which is block 1
    [ "$(column moe.1.load_cv table.csv)" = "$(json load_cv)" ]
    [ "$(column moe.1.prob_sum.0 table.csv)" = "$(sed -E 's/.*"prob_sum":\[([0-9.]*).*/\1/' run/metrics.jsonl)" ]
    ! column moe.0.load_cv table.csv || false
    # all lines have as many cells as the head
    awk -F, 'NR == 1 { n = NF } NF != n { exit 1 }' table.csv
    run "$MOEFW" export csv run -o out.csv
    [ "$status" -eq 0 ]
    [ "$output" = out.csv ]
    cmp out.csv table.csv
}

@test "csv: several runs, names that need quotes, damaged lines; existing files are not changed" {
    mv run 'a,"b'
    cp -r 'a,"b' other
    echo '{"step":7,"split":"val","loss":1.5,"regularizers":{"new,one":2}}' >>other/metrics.jsonl
    echo 'no record' >>other/metrics.jsonl
    printf '{"step":8,"split"' >>other/metrics.jsonl
    run bash -c '"$MOEFW" export csv "a,\"b" other 2>err >both.csv'
    [ "$status" -eq 0 ]
    grep -q 'other/metrics.jsonl: 2 damaged lines skipped' err
    [ "$(grep -c damaged err)" -eq 1 ]
    [[ "$(head -1 both.csv)" == 'run,step,split,loss,'*',"regularizers.new,one"' ]]
    [[ "$(sed -n 2p both.csv)" == '"a,""b",1,train,'* || "$(sed -n 2p both.csv)" == '"a,""b",2,train,'* ]]
    [[ "$(tail -1 both.csv)" == other,7,val,1.5,*,2 ]]
    [ "$(wc -l <both.csv)" -eq $(($(cat 'a,"b/metrics.jsonl' | wc -l) * 2 + 2)) ]
    echo mine >kept
    run "$MOEFW" export csv other -o kept
    [ "$status" -eq 2 ]
    [[ "$output" == *"kept: exists already; expected a new file, or --force"* ]]
    [ "$(cat kept)" = mine ]
    run "$MOEFW" export csv nowhere -o new.csv
    [ "$status" -eq 3 ]
    [[ "$output" == *"nowhere: there is no such run"* ]]
    [ ! -e new.csv ]
}

@test "mlflow: params, metric histories with time and step, tags, meta.yaml" {
    run "$MOEFW" export mlflow run --out store --experiment "MoE Training"
    [ "$status" -eq 0 ]
    made=$output
    [[ "$made" == store/*/* ]]
    [ -f "$made/meta.yaml" ]
    [ -d "$made/artifacts" ]
    grep -qx "name: 'MoE Training'" "$made/../meta.yaml"
    grep -qx "experiment_id: '$(basename "$(dirname "$made")")'" "$made/../meta.yaml"
    grep -qx "experiment_id: '$(basename "$(dirname "$made")")'" "$made/meta.yaml"
    grep -qx "run_id: '$(basename "$made")'" "$made/meta.yaml"
    grep -qx "run_name: 'run'" "$made/meta.yaml"
    grep -qx "status: 3" "$made/meta.yaml"
    grep -qx "artifact_uri: 'file://$PWD/$made/artifacts'" "$made/meta.yaml"
    [ "$(cat "$made/params/model.dim")" = 16 ]
    [ "$(cat "$made/params/router.plugin")" = linear ]
    [ "$(cat "$made/tags/mlflow.runName")" = run ]
    [ "$(cat "$made/tags/moefw.params")" = "$(sed -E 's/.*"params":([0-9]+).*/\1/' run/manifest.json)" ]
    # metric history of the training loss: time, value, step
    [ "$(cut -d' ' -f2,3 "$made/metrics/train/loss")" = "$(sed -nE '/"train"/s/.*"step":([0-9]+).*"loss":([0-9.]+),"task_loss".*/\2 \1/p' run/metrics.jsonl)" ]
    [ -f "$made/metrics/val/ppl_batch_mean" ]
    [ -f "$made/metrics/val/moe.1.load.3" ]
    [ ! -e "$made/metrics/train/ppl_batch_mean" ]
    # times in ms since 1970, none before the start of the run
    began=$(date -u -d "$(sed -E 's/.*"began":"([^"]*)".*/\1/' run/manifest.json)" +%s)
    grep -qx "start_time: ${began}000" "$made/meta.yaml"
    awk -v began="$began" '$1 < 1000 * began || $1 > 1000 * began + 600000 || $1 < last { exit 1 } { last = $1 }' "$made/metrics/train/loss"
    [ "$(find store -name '.moefw*')" = "" ]
}

@test "mlflow: an existing experiment; the same run only once; an interrupted run; only scalars" {
    "$MOEFW" export mlflow run --experiment one
    # as MLflow itself writes it
    mkdir mlruns/77
    printf 'artifact_location: file:///x/mlruns/77\ncreation_time: 5\nexperiment_id: '"'77'"'\nlast_update_time: 5\nlifecycle_stage: active\nname: MoE Training\n' >mlruns/77/meta.yaml
    cp mlruns/77/meta.yaml before
    sed -E 's/"steps":6,/"steps":9,/' run/manifest.json >manifest
    cp -r run short
    cp manifest short/manifest.json
    run "$MOEFW" export mlflow short run/ --experiment "MoE Training" --scalars
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == mlruns/77/* && "${lines[1]}" == mlruns/77/* && "${lines[0]}" != "${lines[1]}" ]]
    cmp before mlruns/77/meta.yaml
    grep -qx "status: 5" "${lines[0]}/meta.yaml"
    grep -qx "run_name: 'run'" "${lines[1]}/meta.yaml"
    [ -f "${lines[1]}/metrics/train/moe.1.load_cv" ]
    [ ! -e "${lines[1]}/metrics/train/moe.1.load.0" ]
    run "$MOEFW" export mlflow run --experiment one
    [ "$status" -eq 2 ]
    [[ "$output" == *"run: is in the store already, as mlruns/"* ]]
}

@test "mlflow: other folders are not changed, and no partial output remains" {
    mkdir full
    echo x >full/thesis.txt
    run "$MOEFW" export mlflow run --out full
    [ "$status" -eq 2 ]
    [[ "$output" == *"full: holds 'thesis.txt' and no experiment of MLflow; expected a new folder, or a store"* ]]
    [ "$(ls -A full)" = thesis.txt ]
    run "$MOEFW" export mlflow run --out full/thesis.txt
    [ "$status" -eq 2 ]
    [[ "$output" == *"is a file; expected a new folder"* ]]
    run "$MOEFW" export mlflow run --out new --experiment ''
    [ "$status" -eq 2 ]
    [[ "$output" == *"--experiment: expected a name of 1 to 250 bytes, found 0"* ]]
    cp -r run broken
    echo '{' >broken/manifest.json
    run "$MOEFW" export mlflow broken --out new
    [ "$status" -eq 3 ]
    [[ "$output" == *"broken: manifest.json"* ]]
    rm broken/manifest.json
    run "$MOEFW" export mlflow broken --out new
    [ "$status" -eq 3 ]
    [[ "$output" == *"broken: the run has no manifest.json"* ]]
    # a name too long for MLflow is found only while files are being written
    long=$(printf 'x%.0s' $(seq 300))
    cp run/manifest.json broken/
    echo "{\"step\":9,\"split\":\"val\",\"$long\":1}" >>broken/metrics.jsonl
    run "$MOEFW" export mlflow broken --out new
    [ "$status" -eq 3 ]
    [[ "$output" == *"is too long for MLflow"* ]]
    [ ! -e new ]
    mkdir there
    for out in there/a/deep/store ./there/a//deep/ "$PWD/there/a"; do
        run "$MOEFW" export mlflow broken --out "$out"
        [ "$status" -eq 3 ]
        [ "$(ls -A there)" = "" ]
    done
    # a split whose name is a path out of the store
    cp run/metrics.jsonl broken/
    echo '{"step":9,"split":"../../../../out","loss":1}' >>broken/metrics.jsonl
    run "$MOEFW" export mlflow broken --out new
    [ "$status" -eq 3 ]
    [[ "$output" == *"split: expected a word, found '../../../../out'"* ]]
    [ ! -e new ]
    [ ! -e out ]
}

@test "mlflow: the name of an experiment that was deleted is not free" {
    made=$("$MOEFW" export mlflow run --experiment one)
    experiment=$(dirname "$made")
    sed -i "s/^lifecycle_stage: 'active'/lifecycle_stage: deleted/" "$experiment/meta.yaml"
    grep -qx 'lifecycle_stage: deleted' "$experiment/meta.yaml"
    rm -r "$made"
    run "$MOEFW" export mlflow run --experiment one
    [ "$status" -eq 2 ]
    [[ "$output" == *"mlruns: the experiment 'one' was deleted (${experiment##*/}); restore it"* ]]
    mkdir mlruns/.trash
    mv "$experiment" mlruns/.trash/
    run "$MOEFW" export mlflow run --experiment one
    [ "$status" -eq 2 ]
    [[ "$output" == *"mlruns/.trash: the experiment 'one' was deleted"* ]]
    [ "$(ls -A mlruns)" = .trash ]
    "$MOEFW" export mlflow run --experiment two
}

@test "mlflow: names add nothing to meta.yaml that YAML does not allow" {
    mv run $'a\n\e[31m\xc2\x9bb'
    "$MOEFW" export mlflow $'a\n\e[31m\xc2\x9bb' --scalars -q >path
    grep -qx "run_name: 'a??\[31m?b'" "$(cat path)/meta.yaml"
    run "$MOEFW" export mlflow $'a\n\e[31m\xc2\x9bb' --experiment $'x\xc2\x9by'
    [ "$status" -eq 2 ]
    [[ "$output" == *"--experiment: expected one line of UTF-8 without control characters"* ]]
}

@test "csv: cells that a spreadsheet would compute begin with an apostrophe" {
    mkdir -- =1+1 plain
    cp -r run/. =1+1
    cp -r run/. plain
    "$MOEFW" export csv ./plain =1+1 >formula.csv
    grep -q "^\"'=1+1\"," formula.csv
    ! grep -q '^[=@+]' formula.csv || false
    grep -q '^./plain,' formula.csv
}
