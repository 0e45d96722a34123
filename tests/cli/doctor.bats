# doctor and graph: what they print.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" XDG_DATA_HOME="$BATS_TEST_TMPDIR"
}

@test "doctor names kernels, BLAS, threads, folders and plugins" {
    run "$MOEFW" doctor -t 1
    [ "$status" -eq 0 ]
    for word in "cpu features" "kernels" "BLAS" "1 of " "plugin folders" "presets" "routers" "0 refused"; do
        [[ "$output" == *"$word"* ]]
    done
    run "$MOEFW" doctor --json
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == '{"moefw":'*'"warnings":['* ]]
}

@test "doctor warns of libraries that others load into the process" {
    LD_PRELOAD='' run "$MOEFW" doctor
    [[ "$output" == *"warning: LD_PRELOAD"* ]]
    MOEFW_KERNELS=ref run "$MOEFW" doctor
    [[ "$output" == *"MOEFW_KERNELS"* ]]
    [[ "$output" =~ kernels\ +ref ]]
    MOEFW_KERNELS=gpu run "$MOEFW" doctor
    [ "$status" -eq 2 ]
    [[ "$output" == *"MOEFW_KERNELS"*"cpu, ref"* || "$output" == *"cpu or ref"* ]]
}

@test "doctor reports a refused plugin" {
    mkdir -p moefw/plugins/routers
    echo no >moefw/plugins/routers/broken.so
    run "$MOEFW" doctor
    [ "$status" -eq 0 ]
    [[ "$output" == *"1 refused"* ]]
    [[ "$output" == *"broken"* ]]
    # as JSON, with what the environment changes
    OPENBLAS_CORETYPE=Haswell LD_LIBRARY_PATH=/nowhere LD_PRELOAD='' run --separate-stderr "$MOEFW" doctor --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"OPENBLAS_CORETYPE":"Haswell"'* ]]
    [[ "$output" == *'"refused":[{"name":"broken","message":"'*'broken.so'*'"}],"plugins":"'*' 1 refused","warnings":["'* ]]
    warnings=${output#*'"warnings":['}
    [[ "$warnings" == '"OPENBLAS_CORETYPE is set: '*'","some plugins are refused: '*'","LD_PRELOAD is set: '*'","LD_LIBRARY_PATH is set: '* ]]
}

@test "graph prints DOT" {
    run bash -c '"$MOEFW" graph --seq 8 2>err'
    [ "$status" -eq 0 ]
    [ ! -s err ]
    [[ "${lines[0]}" == digraph* ]]
    [[ "$output" == *rmsnorm* ]]
    [ "$(grep -o '{' <<<"$output" | wc -l)" -eq "$(grep -o '}' <<<"$output" | wc -l)" ]
    ! command -v dot >/dev/null || dot -Tsvg <<<"$output" >/dev/null
    run "$MOEFW" graph --seq 100000
    [ "$status" -eq 2 ]
}

@test "config check builds the model and counts it" {
    run bash -c '"$MOEFW" config check --json --set model.moe_every=0 --set model.layers=1 --set model.dim=8 --set model.heads=1 --set model.ffn_hidden=16 --set model.ffn_activation=relu 2>err'
    [ "$status" -eq 0 ]
    [[ "$output" == *'"ok":true'* ]]
    # embedding and head 2 x 256 x 8; attention 4 x 64; dense 2 x 8 x 16 + 24; three norms of 8
    [[ "$output" == *'"params":4656,"params_active":4656,'* ]]
    printf '[model]\nvocab = 300\n[data]\npath = nowhere.txt\ntokenizer = char\n' >a.ini
    run bash -c '"$MOEFW" config check --json a.ini 2>err'
    [ "$status" -eq 0 ]
    [[ "$output" == *'"params":'[1-9]* && "$output" == *'"memory_mib":null'* ]]
    "$MOEFW" config check a.ini 2>err | grep -q 'memory to train: not known without the data'
}

@test "doctor names what is optional and not here, with the command that adds it" {
    run "$MOEFW" doctor
    for module in openmpi mpich nccl; do
        [ -e "$builddir/plugins/comm/$module.so" ] && continue
        case $module in
        openmpi) [[ "$output" == *"Open MPI         not here; to add it: apt-get install openmpi-bin libopenmpi-dev && ./quickstart build"* ]] ;;
        mpich) [[ "$output" == *"MPICH            not here; to add it: apt-get install mpich libmpich-dev && ./quickstart build"* ]] ;;
        nccl) [[ "$output" == *"NCCL             not here; to add it: build moefw with --with-nccl=yes"* ]] ;;
        esac
    done
    missing=0
    for module in openmpi mpich nccl; do [ -e "$builddir/plugins/comm/$module.so" ] || missing=$((missing + 1)); done
    [ "$(grep -cE '^(Open MPI|MPICH|NCCL) .*not here' <<<"$output")" -eq "$missing" ]
}
