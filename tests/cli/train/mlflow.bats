# log.mlflow: metrics on a server, over a resume, too; whatever the server does, a run is the same,
# and does not wait for it. The server is tests/mlflow/server.c.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    unset MLFLOW_TRACKING_URI http_proxy HTTP_PROXY all_proxy ALL_PROXY MLFLOW_TRACKING_USERNAME MLFLOW_TRACKING_PASSWORD MLFLOW_TRACKING_TOKEN
    if grep -q '^#define HAVE_CURL 1' "$builddir/config.h"; then
        serve
    elif [[ "$BATS_TEST_DESCRIPTION" != "a build without libcurl"* ]]; then
        skip "this build has no libcurl"
    fi
}

teardown() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || true
}

# serve [MODE]: starts a server in ./s; its address becomes $at
serve() {
    mkdir -p s
    rm -f s/port
    mode "${1:-ok}"
    "$builddir/tests/mlflow/server" s 3>&- &
    server=$!
    for ((i = 0; i < 6000; i++)); do
        [ ! -e s/port ] || break
        sleep 0.05
    done
    at=http://127.0.0.1:$(cat s/port)
}

# mode WORD: how the server answers from now on
mode() {
    echo "$1" >s/mode.new && mv s/mode.new s/mode
}

small=(--set data.path=builtin:topics?bytes=60000 --set model.layers=1 --set model.dim=16
    --set model.heads=2 --set model.seq=16 --set model.vocab=256 --set expert.hidden=16
    --set moe.experts=4 --set train.batch=2 --set train.eval_every=20 --set train.eval_batches=2
    --set train.final_batches=2 --set train.eval_context=0 --set report.enabled=no)

# small DIR WORDS...: trains a small model in DIR with the server
small() {
    dir=$1
    shift
    "$MOEFW" train --out "$dir" -t 1 "${small[@]}" --set "log.mlflow=$at" "$@"
}

# values RUN: KEY STEP of all values of a run on the server, sorted
values() {
    sed -n "s/^$1 \([^ ]*\) \([0-9]*\) .*/\1 \2/p" s/values | sort
}

# losses DIR: what the server must have of the losses of a run, sorted; of the final validation twice
losses() {
    sed -nE -e '/"final":true/{ h; s/^\{"step":([0-9]+),.*/final\/loss \1/p; g }' \
        -e 's/^\{"step":([0-9]+),"split":"([a-z]+)".*/\2\/loss \1/p' "$1/metrics.jsonl" | sort
}

@test "a run is on the server: name, parameters, tags, each number once, and its status" {
    run small a --steps 40 --set log.mlflow_experiment="it's 1"
    [ "$status" -eq 0 ]
    [[ "$output" == *"log.mlflow = $at: this run is $at/#/experiments/0/runs/run0"* ]]
    [[ "$output" != *warning* ]]
    grep -q '^GET experiments/get-by-name?experiment_name=it%27s%201 $' s/log
    grep -q '^POST runs/create .*"run_name":"a"' s/log
    grep -q '"key":"train.steps","value":"40"' s/log
    grep -q '"key":"mlflow.runName","value":"a"' s/log
    grep -q '"key":"moefw.version"' s/log
    [ "$(values run0 | grep '/loss ')" = "$(losses a)" ]
    values run0 | grep -qx 'train/moe.0.load_cv 40'
    values run0 | grep -qx 'val/bits_per_byte 40'
    [ "$(values run0 | sort -u | wc -l)" -eq "$(wc -l <s/values)" ]
    loss=$(sed -n 's/^{"step":40,"split":"train",.*"loss":\([^,]*\),.*/\1/p' a/metrics.jsonl)
    awk -v loss="$loss" '$2 == "train/loss" && $3 == 40 && ($4 - loss) ^ 2 < 1e-24 { ok = 1 } END { exit !ok }' s/values
    tail -1 s/log | grep -q '^POST runs/update .*"status":"FINISHED","end_time":'
    cut_times() { sed -E 's/"(tokens_per_s|wall_s)":[^,]*,//g' "$1"; }
    "$MOEFW" train -q -t 1 --out b "${small[@]}" --steps 40
    [ "$(cut_times a/metrics.jsonl)" = "$(cut_times b/metrics.jsonl)" ]
    [ ! -e b/mlflow.json ]
}

@test "a resumed run continues the same one, and sends what the server lacks, once" {
    small a --steps 20 2>err
    mode 500
    "$MOEFW" train a --resume --set train.steps=40 -t 1 2>>err
    grep -q 'values were not sent, --resume sends them' err
    mode ok
    "$MOEFW" train a --resume --set train.steps=60 -t 1 2>err
    grep -q 'warning: after step 40 train.steps = 60 (before: 40)' err
    grep -q 'warning: .*a/config.ini now describes how the run goes on' err
    [ "$(grep -c warning err)" -eq 2 ] # and none of the server
    [ "$(grep -c '^POST runs/create' s/log)" -eq 1 ]
    grep -q '"status":"RUNNING"' s/log
    [ "$(values run0 | grep '/loss ')" = "$(losses a)" ]
    [ "$(values run0 | sort -u | wc -l)" -eq "$(wc -l <s/values)" ]
    # what cannot be described is not sent, and the run goes on
    rm a/mlflow.json a/manifest.json
    requests=$(wc -l <s/log)
    "$MOEFW" train a --resume --set train.steps=61 -t 1 2>err
    grep -q 'warning: nothing more is sent to MLflow: a/manifest.json: there is no such file' err
    [ "$(wc -l <s/log)" -eq "$requests" ]
    grep -q '"step":61,"split":"val"' a/metrics.jsonl
}

@test "whatever the server does, the run is whole, with one warning" {
    for mode in 500 404 html close cut header; do
        mode $mode
        run small $mode --steps 20
        [ "$status" -eq 0 ] || { echo "$mode: $output"; return 1; }
        [ "$(grep -c 'expected the address of an MLflow server); training does not wait' <<<"$output")" -eq 1 ]
        [ "$(grep -c 'values were not sent, --resume sends them' <<<"$output")" -eq 1 ]
        grep -q '"step":20,"split":"val"' $mode/metrics.jsonl
    done
    kill "$server"
    wait "$server" || true
    run small gone --steps 20
    [ "$status" -eq 0 ]
    [[ "$output" == *"onnect"*"training does not wait for it"*"values were not sent"* ]]
    grep -q '"step":20,"split":"val"' gone/metrics.jsonl
}

@test "a server that hangs stalls no step, and the end for some seconds" {
    mode hang
    SECONDS=0
    run small a --steps 60
    [ "$status" -eq 0 ]
    [[ "$output" == *"values were not sent"* ]]
    took=$(sed -nE 's/.*"step":60,"split":"train".*"wall_s":([0-9.]+).*/\1/p' a/metrics.jsonl)
    awk -v total=$SECONDS -v steps="$took" 'BEGIN { exit !(total - steps >= 3 && total - steps < 30) }'
}

@test "what a slow server has not taken in time is sent; values that it refuses are skipped" {
    mode slow
    run small a --steps 20
    [ "$status" -eq 0 ]
    [[ "$output" != *warning* ]]
    [ "$(values run0 | grep '/loss ')" = "$(losses a)" ]
    mode refuse
    run small b --steps 20
    [ "$status" -eq 0 ]
    [ "$(grep -c 'values were refused (status 400: this server takes no values)' <<<"$output")" -eq 1 ]
    tail -1 s/log | grep -q '"status":"FINISHED"'
}

@test "a server that comes back gets all values" {
    mode 500
    env --default-signal=INT "$MOEFW" train --out a -t 1 "${small[@]}" --set train.log_every=100 \
        --set train.eval_every=200 --set "log.mlflow=$at" --steps 10000000 >/dev/null 2>err 3>&- &
    pid=$!
    for ((i = 0; i < 6000; i++)); do
        ! grep -q 'status 500' err || break
        sleep 0.05
    done
    mode ok
    for ((i = 0; i < 6000; i++)); do
        ! grep -q 'the server answers now' err || break
        sleep 0.05
    done
    [ $i -lt 600 ]
    kill -INT $pid
    wait $pid || true
    [ "$(grep -c warning: err)" -le 2 ] # of the server, and of the signal
    [ "$(values run0 | grep '/loss ')" = "$(losses a)" ]
    tail -1 s/log | grep -q '"status":"KILLED"'
}

@test "a run that diverges has the status FAILED; one that the server lost is made anew" {
    run small a --steps 60 --set train.lr=1000 --set train.clip=0 --set train.warmup=0 --set train.schedule=constant
    [ "$status" -eq 5 ]
    tail -1 s/log | grep -q '"status":"FAILED"'
    small b --steps 20 2>err
    mode gone
    "$MOEFW" train b --resume --set train.steps=21 -t 1 2>err
    grep -q 'the run run1 cannot be continued (status 404: the run is gone), a new one is made' err
    mode ok
    "$MOEFW" train b --resume --set train.steps=40 -t 1 2>err
    [ "$(values run2 | grep '/loss ')" = "$(losses b)" ]
}

@test "wrong addresses are refused before anything is made" {
    for wrong in localhost:5000 ftp://host http:// 'http://a b' 'http://x?y' http://:5000; do
        run "$MOEFW" train --out a --set "log.mlflow=$wrong"
        [ "$status" -eq 2 ]
        [[ "$output" == *"'mlflow' in [log]: expected the address of an MLflow server, as http://localhost:5000"* ]] ||
            { echo "$output"; return 1; }
    done
    run "$MOEFW" train --out a --set log.mlflow=http://me:secret@host
    [ "$status" -eq 2 ]
    [[ "$output" != *secret* ]]
    [ ! -e a ]
}

@test "a login comes from the variables of MLflow's own clients, for the server that they name" {
    mode 401
    export MLFLOW_TRACKING_TOKEN=abc
    run small a --steps 2
    [[ "$output" == *"status 401: a login is sent if MLFLOW_TRACKING_URI is this address"* ]]
    MLFLOW_TRACKING_URI=${at}0 small b --steps 2 2>err
    [ ! -e s/logins ]
    mode ok
    MLFLOW_TRACKING_URI=$at/ small c --steps 2 2>err
    MLFLOW_TRACKING_URI=$at MLFLOW_TRACKING_USERNAME=me MLFLOW_TRACKING_PASSWORD=word small d --steps 2 2>err
    [ "$(sort -u s/logins)" = "Basic $(printf me:word | base64)
Bearer abc" ]
}

@test "a build without libcurl ends with status 6, before anything is made" {
    [ -z "$server" ] || skip "this build has libcurl"
    run "$MOEFW" train default --out run --steps 1 -q --set log.mlflow=http://127.0.0.1:1
    [ "$status" -eq 6 ]
    [ "${#lines[@]}" -eq 1 ]
    [ ! -e run ]
    [[ "$output" == *"this build has no libcurl"* ]]
}
