# Loss of power while checkpoints are saved, kept, replaced by better ones, resumed, and while a
# comparison runs: replay.c makes the states that the disk may be in, and looks for what was
# reported as saved.

setup() {
    if ldd "$builddir/libmoefw.so.0" | grep -qE 'lib[atl]san'; then skip "not under a sanitizer"; fi
    folder=$(mktemp -d "${TMPDIR:-/dev/shm}/moefw-power-XXXXXX" 2>/dev/null || mktemp -d)
    cd "$folder" || exit 1
    head -c 3000 "$srcdir/README.md" >text.txt
    printf '%s\n' '[model]' dim=16 layers=1 heads=2 seq=16 '[moe]' experts=2 '[data]' "path=$folder/text.txt" \
        '[train]' batch=2 steps=3 eval_context=8 eval_every=2 eval_batches=2 save_every=1 keep=2 >tiny.ini
}

teardown() {
    rm -rf "$folder"
}

begin() {
    mkdir disk
    : >record
    export OMP_NUM_THREADS=1 MOEFW_FAULT_RECORD=$folder/record MOEFW_FAULT_ROOT=$folder/disk
    recorded=(env "LD_PRELOAD=$builddir/tests/faults/faults.so" "$MOEFW")
}

record() {
    begin
    "${recorded[@]}" train tiny.ini -q --out "$folder/disk/runs/a" --set train.keep_best=yes
    "${recorded[@]}" train -q --resume "$folder/disk/runs/a" --set train.steps=5
    "${recorded[@]}" compare tiny.ini --routers linear,hash --seeds 1 --steps 2 -o "$folder/disk/cmp" -q
}

replay() { # STATES SEED
    run timeout -s KILL 7200 "$builddir/tests/faults/replay" record "$folder/disk" "$folder/state" "$@" "$MOEFW"
    echo "$output" | tail -20
    [ -z "$MOEFW_SLOW" ] || echo "$output" | sed -n 's/^ok /# ok /p' >&3
    [ "$status" -eq 0 ]
    [ "$(grep -c '^ok' <<<"$output")" = 2 ]
    [ "$(grep -c '^not ok' <<<"$output")" = 0 ]
    [ "$(grep -c ', [1-9][0-9]* runs resumed$' <<<"$output")" = 2 ]
}

@test "power fails at each operation: no saved checkpoint is lost, in the ordered and the strict model" {
    record
    replay 600 1
}

@test "the same, 20,000 states of each model" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 runs it, for some minutes"
    record
    replay 20000 2
}

@test "processes that make the folders of a run are killed before their sync, and the next one trains there" {
    begin
    for made in runs runs/a runs/a/best; do
        run env MOEFW_FAULT_KILL="$folder/disk/$made" "${recorded[@]}" train tiny.ini -q --out "$folder/disk/runs/a" \
            --set train.keep_best=yes
        [ "$status" -eq 137 ]
        [ -d "disk/$made" ]
    done
    "${recorded[@]}" train -q --resume "$folder/disk/runs/a"
    [ -e disk/runs/a/best/latest ]
    replay 200 3
}

@test "a directory that is not synced where it was made loses its checkpoints in the strict model" {
    record
    # The record without the syncs of the folders that the program made and of their parents.
    export MOEFW_FAULT_FORGET=$folder/disk
    run "$builddir/tests/faults/replay" record "$folder/disk" "$folder/state" 100 1
    grep -q '^not ok 2 - strict' <<<"$output"
    grep -q '^ok 1 - ordered' <<<"$output"
}
