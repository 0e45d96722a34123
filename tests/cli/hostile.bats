# What an unusual environment does to the program: limits, signals, names that do not exist, files
# of other types. Each gives one clear message and the right status.

setup_file() {
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" train -q -t 1 --out run --set data.path='builtin:topics?bytes=20000' --set model.layers=1 \
        --set model.dim=16 --set model.heads=2 --set model.seq=16 --set expert.hidden=16 --set moe.experts=4 \
        --set train.batch=2 --set train.steps=4 --set train.eval_batches=1 --set train.eval_context=0 >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp -r "$BATS_FILE_TMPDIR/run" run
}

# told STATUS TEXT ARGUMENTS...: ends with the status, and its only message is the text
told() {
    run "$MOEFW" "${@:3}"
    [ "$status" -eq "$1" ] && [ "$output" = "moefw: $2" ] && return
    echo "status $status, expected $1; expected: moefw: $2"
    echo "$output"
    return 1
}

@test "the size limit of a file is an error, not a signal" {
    export GCOV_PREFIX="$BATS_FILE_TMPDIR/gcov" # the limit must not cut counters of a build for coverage
    run bash -c 'ulimit -f 20 && exec "$MOEFW" data synth --bytes 2000000 -o text -q'
    [ "$status" -eq 1 ]
    [ "$output" = "moefw: text: cannot write: File too large" ]
    [ "$(ls)" = run ]
    run bash -c 'ulimit -f 20 && exec "$MOEFW" train --resume run -q -t 1 --steps 8'
    [ "$status" -eq 1 ]
    [[ "$output" == *"step-8.tmp/"*": cannot write: File too large" ]]
    "$MOEFW" ckpt verify run
    "$MOEFW" train --resume run -q -t 1 --steps 8
}

@test "commands that compute nothing run in 128 MiB of addresses" {
    ! grep -q '__[at]san_init' "$MOEFW" || skip "a sanitizer takes more addresses"
    local command
    for command in "--version" "config check default" "config show default" "plugin info linear" "presets" doctor; do
        run timeout 60 bash -c "ulimit -v 131072 && OMP_NUM_THREADS=2 \"\$MOEFW\" $command"
        [ "$status" -eq 0 ] || { echo "$command: $status $output"; return 1; }
    done
    # These only have to know which library would compute gemms.
    for command in "config check default" "config show default" "graph default"; do
        run timeout 60 bash -c "ulimit -v 131072 && MOEFW_ISA=generic OMP_NUM_THREADS=2 \"\$MOEFW\" $command"
        [ "$status" -eq 0 ] || { echo "$command: $status $output"; return 1; }
    done
}

# OpenBLAS has a buffer of 128 MiB for each of 2 threads and one for itself, and 64 MiB are for
# other things: 448 MiB.
@test "too few addresses for OpenBLAS are an error, not a command that never ends" {
    ! grep -q '__[at]san_init' "$MOEFW" || skip "a sanitizer takes more addresses"
    local lacks="OpenBLAS cannot be used: expected 448 MiB of free addresses for 2 threads, found fewer"
    local command variable
    export OMP_NUM_THREADS=2
    for variable in MOEFW_ISA=generic MOEFW_GEMM=openblas; do
        for command in "train --resume run -q -t 2 --steps 8" "eval run -t 2" "bench gemm -t 2 --most 2"; do
            run timeout 60 bash -c "ulimit -v 262144 && $variable \"\$MOEFW\" $command"
            [[ "$status" -eq 6 && "$output" == *"$lacks"* ]] || { echo "$variable $command: $status $output"; return 1; }
        done
    done
    [ ! -e run/ckpt/step-8 ]
    # The same limit of data, which the children of plugin check have; the doctor goes on.
    run timeout 60 bash -c 'ulimit -d 262144 && "$MOEFW" doctor'
    [ "$status" -eq 0 ]
    [[ "$output" == *"BLAS "*"$lacks"*"threads "* ]]
    # OpenBLAS has its buffers before a model takes the rest.
    for command in 590000 620000; do
        run timeout -s KILL 120 bash -c "ulimit -v $command && MOEFW_GEMM=openblas \"\$MOEFW\" train default -q -t 2 --steps 1 \
            --out big --set 'data.path=builtin:topics?bytes=20000' --set model.dim=256 --set expert.hidden=1024 \
            --set model.layers=2 --set model.seq=16 --set train.batch=2 --set train.save_every=0 \
            --set train.eval_context=0 --set train.eval_batches=1"
        [[ "$status" -le 1 ]] || { echo "$command: $status $output"; return 1; }
        rm -rf big
    done
    # It is enough if it is there.
    run timeout 120 bash -c 'ulimit -v 1000000 && MOEFW_GEMM=openblas "$MOEFW" train --resume run -q -t 2 --steps 8'
    [ "$status" -eq 0 ] || { echo "$status $output"; return 1; }
}

# The name of OpenBLAS's file stands for something else: a text, then a plugin.
@test "OpenBLAS that cannot be opened, or that is another library, is an error; the doctor goes on" {
    local lacks
    mkdir lib
    echo text >lib/libopenblas.so.0
    for lacks in "OpenBLAS cannot be opened (Debian, Ubuntu: libopenblas0-openmp): $PWD/lib/libopenblas.so.0: file too short" \
        "libopenblas.so.0: expected OpenBLAS with the interface of C"; do
        LD_LIBRARY_PATH=$PWD/lib MOEFW_GEMM=openblas run "$MOEFW" bench gemm -t 1 --most 2
        [[ "$status" -eq 6 && "$output" == *"MOEFW_GEMM=openblas: $lacks"* ]] || { echo "$status $output"; return 1; }
        LD_LIBRARY_PATH=$PWD/lib run "$MOEFW" doctor
        [[ "$status" -eq 0 && "$output" == *"BLAS "*"$lacks"*"threads "* ]] || { echo "$status $output"; return 1; }
        cp "$builddir/plugins/routers/linear.so" lib/libopenblas.so.0
    done
}

# ended WORDS...: the command of bash ends with status 0, and with the bits of a run without limits
ended() {
    rm -rf other
    cp -r run other
    run timeout 120 bash -c "$1 && \"\$MOEFW\" train --resume other -q -t 1 --steps 6"
    [ "$status" -eq 0 ] || { echo "$1: $status $output"; return 1; }
    cmp other/ckpt/step-6/model.safetensors whole/ckpt/step-6/model.safetensors
}

@test "few descriptors, a small stack, no home, odd time zone and locale, no folder for temporary files" {
    cp -r run whole
    "$MOEFW" train --resume whole -q -t 1 --steps 6
    ended "ulimit -n 32"
    ended "ulimit -Ss 256"
    ended "unset HOME XDG_CONFIG_HOME XDG_DATA_HOME"
    ended "export TZ=:/nowhere/Odd LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE"
    ended "export TMPDIR=/nowhere"
}

@test "a program with privileges that its caller lacks refuses to run" {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    ! grep -qE '__(asan|ubsan|tsan)_' "$MOEFW" || skip "a sanitizer wants its own main"
    local group
    group=$(getent group | awk -F: '$3 > 0 { print $3; exit }')
    cp "$MOEFW" given
    run ./given --version
    [ "$status" -eq 0 ]
    chgrp "$group" given
    chmod g+s given
    run ./given --version
    [ "$status" -eq 2 ] || { [ "$status" -eq 0 ] && findmnt -n -o OPTIONS -T . | grep -q nosuid && skip "nosuid"; }
    [[ "$output" == "moefw: refuses to run with privileges that its caller lacks (setuid, setgid or file capabilities): "* ]]
    [ "${#lines[@]}" -eq 1 ]
}

@test "nohup works: an ignored SIGHUP stays ignored" {
    (
        trap '' HUP
        exec "$MOEFW" train --resume run -q -t 1 --steps 6000
    ) >out &
    for _ in $(seq 100); do
        [ "$(wc -l <run/metrics.jsonl)" -gt 8 ] && break
        sleep 0.05
    done
    kill -HUP $!
    wait $!
    [ -d run/ckpt/step-6000 ]
}

@test "names that are empty, of missing files, or of other things" {
    told 2 "--out: expected the name of a directory, found nothing" train --out ''
    told 2 "-o: expected the name of a file, found nothing" data synth -o ''
    told 3 "runn: there is no such run; did you mean 'run'?" eval runn
    told 3 "runn: there is no such run; did you mean 'run'?" generate runn
    told 3 "runn: there is no such run; did you mean 'run'?" train --resume runn
    mkdir folder
    told 3 "folder: not a run: expected a directory with config.ini" trace record folder
    told 3 "folder: not a run: expected a directory with config.ini" ckpt ls folder
    told 2 "plugin './folder': expected a file, found a directory" plugin info ./folder
    rm run/manifest.json
    told 3 "run/manifest.json: there is no such file" generate run
    rm -r run/ckpt
    [ "$("$MOEFW" ckpt ls run)" = "no checkpoints" ]
}

@test "--resume continues one run, and reports what it does not read" {
    told 2 "--resume needs a run to continue: moefw train RUN --resume" train --resume
    told 2 "--resume: both run and --out other name the run to continue; give one of them" \
        train run --resume --out other
    run "$MOEFW" train default --resume --out run -t 1 --steps 5
    [ "$status" -eq 0 ]
    [[ "$output" == *"run continues with its own configuration; default is not read"* ]]
    [ -d run/ckpt/step-5 ]
}

@test "the doctor reports ignored plugin folders; runs record their processor" {
    MOEFW_PLUGIN_PATH=relative:/nonexistent:$PWD run "$MOEFW" doctor
    [ "$status" -eq 0 ]
    [ "$(grep -c '^warning: MOEFW_PLUGIN_PATH: ' <<<"$output")" -eq 2 ]
    grep -qF "MOEFW_PLUGIN_PATH: 'relative' is ignored: expected the absolute path of a folder" <<<"$output"
    features=$("$MOEFW" doctor | sed -n 's/^cpu features  *//p')
    [[ "$features" == none* ]] || grep -qF "\"cpu_features\":\"$features\"" run/manifest.json
}
