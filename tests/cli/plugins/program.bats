# What plugins do to the program: messages that must not be lost, tables that say what this moefw
# cannot do, output, signals, floating-point control, exits. The plugins are tests/plugins/bad/program.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export BAD="$BATS_FILE_TMPDIR/bad" MOEFW_PROBE_SECONDS=2
    # In a build with a sanitizer, a crash still ends the process by its signal.
    export ASAN_OPTIONS="handle_segv=0:handle_abort=0:detect_leaks=0:${ASAN_OPTIONS-}"
    export UBSAN_OPTIONS="handle_segv=0:${UBSAN_OPTIONS-}" TSAN_OPTIONS="handle_segv=0:${TSAN_OPTIONS-}"
    mkdir "$BAD"
    local source
    for source in "$srcdir"/tests/plugins/bad/{good,program/*}.c; do
        ${CC:-cc} -std=gnu11 -O1 -g -I"$srcdir/include" -I"$builddir/include" -fPIC -pthread \
            -fvisibility=hidden -shared -o "$BAD/$(basename "$source" .c).so" "$source" -lm
    done
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    printf '[model]\ndim = 16\nlayers = 2\nheads = 2\nkv_heads = 2\nseq = 16\n' >small.ini
    printf '[train]\nbatch = 2\neval_context = 0\neval_batches = 1\n' >>small.ini
}

# small NAME ARGUMENT...: a few steps with that router
small() {
    local name=$1
    shift
    "$MOEFW" train small.ini -t 1 --steps 3 --plugin "$BAD/$name.so" "$@"
}

# fails STATUS NAME WORDS...: these steps end with the status and all of the words
fails() {
    local want=$1 name=$2
    run --separate-stderr small "$name"
    [ "$status" -eq "$want" ] || { echo "status $status: $output $stderr"; return 1; }
    shift 2
    for word; do
        [[ "$stderr" == *"$word"* ]] || { echo "lacks '$word': $stderr"; return 1; }
    done
}

@test "a message outlives fini, and a crash in fini is reported as one in fini" {
    fails 4 fini_error "layers.0.router (plugin bad)" "this is the reason"
    run "$MOEFW" plugin check "$BAD/fini_error.so"
    [ "$status" -eq 4 ]
    [[ "$output" == *"FAIL  "*"this is the reason"* ]]
    run "$MOEFW" plugin info "$BAD/abort_fini.so"
    [ "$status" -eq 4 ]
    [[ "$output" == *"killed by SIGABRT in fini: expected fini to return"* ]]
}

@test "mf->fail and MF_OK after it is a failure" {
    fails 4 fail_and_ok "expected a colder day" "route of plugin bad returned MF_OK after that"
}

@test "after_step that writes to what is not its own ends the run, and its write is lost" {
    for name in embed.weight layers.0.norm2.weight layers.0.attention.qkv.weight layers.0.expert.w13; do
        sed "s|mf->data(ctx, \"weight\"|mf->data(ctx, \"/$name\"|" \
            "$srcdir/tests/plugins/bad/rules/rule_restore.c" >writes.c
        sed 's|"../bad.h"|"bad.h"|' -i writes.c
        ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/tests/plugins/bad" -I"$srcdir/include" -I"$builddir/include" \
            -fPIC -fvisibility=hidden -shared -o "$BAD/writes.so" writes.c
        fails 4 writes "layers.0.router (plugin bad): it wrote to $name: expected its own buffers"
    done
}

@test "after_step is called for shared experts, too" {
    sed 's/"mlp"/"steps"/; s/mf->param(ctx, "b2"/mf->buffer(ctx, "seen", mf_shape1(E), MF_ZEROS);\n    if (rc == MF_OK \&\& c->bias) rc = &/
        s/, forward, NULL};/, forward, after_step};/; /^static const mf_option/i\
static int after_step(void *self, mf_ctx *ctx, const mf_step *step)\
{\
    int64_t n;\
    (void)self, (void)step;\
    mf->data(ctx, "seen", \&n);\
    return n == 3 ? mf->fail(ctx, MF_EPLUGIN, "3 experts saw a step") : MF_OK;\
}' "$srcdir/plugins/experts/mlp.c" >steps.c
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
        -o steps.so steps.c -lm
    BAD=$PWD small steps
    run "$MOEFW" train small.ini -t 1 --steps 3 --plugin "$PWD/steps.so" --set moe.shared_experts=3
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"layers.0.shared "*"3 experts saw a step"* ]]
}

@test "out of memory names the op that asks for it" {
    export ASAN_OPTIONS="allocator_may_return_null=1:$ASAN_OPTIONS"
    fails 1 op_memory "out of memory" "op greedy (layers.0.router bad) asks for most, 4398046511"
}

@test "flags and sizes that this moefw does not know are refused where they are used" {
    fails 4 op_size "op odd: its table says that it has 100 bytes: expected " ", the size of mf_opdef"
    fails 4 op_flag "op odd: expected flags of MF_OP_*" "found 0x40000000"
    fails 4 param_flag "param 'weight': expected flags of MF_PARAM_*" "found 0x400"
    fails 4 shape_reserved "buffer 'odd': reserved of its shape: expected 0, found 5"
    fails 4 record "the routing record: expected 0 in reserved, found 1"
}

@test "a plugin that closes all descriptors and waits is refused in time" {
    local name
    for name in pause_constructor pause_init; do
        run timeout 60 "$MOEFW" plugin info "$BAD/$name.so"
        [ "$status" -eq 4 ] || { echo "$name: $status $output"; return 1; }
        [[ "$output" == *"expected an end within 2 s"* ]]
    done
}

@test "exit and _exit, in an op or after a step, never end a run with status 0" {
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer has an _exit of its own"
    fails 4 exit_op "op leaver of the plugin at layers.0.router bad called exit() (plugin bad, $BAD/exit_op.so)"
    fails 4 quit_op "op leaver of the plugin at layers.0.router bad called _exit() (plugin bad, $BAD/quit_op.so)"
    fails 4 exit_after "plugin bad ($BAD/exit_after.so) called exit() in after_step of layers.0.router"
    fails 4 quit_after "plugin bad ($BAD/quit_after.so) called _exit() in after_step of layers.0.router"
}

# variant NAME SOURCE FLAG...: builds ./NAME.so
variant() {
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -pthread -fvisibility=hidden \
        -shared -o "$1.so" "${@:3}" "$srcdir/tests/plugins/bad/$2.c" -lm
}

# named ACT TEXT: each command that loads the plugin ends with 4 and a line that has the text
named() {
    local command file="$PWD/only_$1.so"
    for command in "plugin info $file" "plugin check $file --seconds 1" "config check small.ini --plugin $file" \
        "graph small.ini --plugin $file" "compare small.ini -t 1 --steps 1 --out cmp --plugin $file" \
        "train small.ini -t 1 --steps 1 --out out --set plugin.patience=1 --plugin $file"; do
        # shellcheck disable=SC2086
        run --separate-stderr timeout 60 "$MOEFW" $command
        [[ "$status" -eq 4 && "$stderr" == *"moefw: plugin $file $2 in a constructor: expected it to return"* ]] ||
            { echo "$command: status $status: $output $stderr"; return 1; }
    done
    [[ ! -e out && ! -e cmp ]]
}

@test "a constructor that acts only in the program, not where it is tried: exit, crash, no return" {
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer has an _exit of its own"
    variant only_quit init/only_program -DACT='_Exit(0)' # which the program's own _exit stands for, too
    variant only_exit init/only_program -DACT='exit(0)'
    variant only_crash init/only_program -DACT='(dprintf(1, "last words"), abort())'
    variant only_pause init/only_program -DACT='pause()'
    named quit "called _exit()"
    named exit "called exit()"
    grep -q __tsan_init "$MOEFW" || named crash "killed by SIGABRT"
    # What it printed before, in place of standard output, is not lost.
    grep -q __tsan_init "$MOEFW" || [[ "$stderr" == *"last words"* && "$output" != *"last words"* ]]
    export MOEFW_PROBE_SECONDS=1
    named pause "did not return within 1 s (MOEFW_PROBE_SECONDS)"
}

@test "a destructor that calls _exit(0) does not hide a failure" {
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer has an _exit of its own"
    variant only_end init/only_program -DWHEN=destructor
    run --separate-stderr "$MOEFW" config check small.ini --plugin "$PWD/only_end.so" --set train.warmup=-1
    [ "$status" -eq 2 ]
    run --separate-stderr "$MOEFW" config check small.ini --plugin "$PWD/only_end.so"
    [ "$status" -eq 0 ]
}

@test "exit and _exit in a thread of a plugin never end a run with status 0; its own processes may end" {
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer has an _exit of its own"
    local text="a plugin or a library called %s while the program was running: expected it to go on"
    variant quit_thread program/other_thread
    variant exit_thread program/other_thread -DACT='exit(0)'
    variant end_child program/other_thread -DOTHER_PROCESS
    BAD=$PWD
    # shellcheck disable=SC2059
    fails 1 quit_thread "$(printf "$text" '_exit()')"
    # shellcheck disable=SC2059
    fails 1 exit_thread "$(printf "$text" 'exit()')"
    run --separate-stderr small end_child --out out
    [ "$status" -eq 0 ]
    [[ "$stderr" != *"_exit"* ]]
    [ "$(cat out/ckpt/latest)" = step-3 ]
}

@test "working folder, umask and locale that a plugin changes are as before when files are written" {
    run --separate-stderr small folder_after --out here --set train.log_every=1
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"warning: a plugin changes the "*" of the program in a step: expected "* ]]
    [ "$(stat -c %a here/ckpt/step-3)" = "$(printf %o $((0777 & ~$(umask))))" ]
    "$MOEFW" ckpt verify here
}

@test "a run whose descriptors a plugin closes ends, and does not write to other files" {
    fails 4 close_after "metrics.jsonl: its descriptor was closed while the run went on"
}

@test "plugin.patience: a call that does not return is named, with its layer" {
    local name
    for name in "loop_route:plugin bad ($BAD/loop_route.so) did not return within 1 s (plugin.patience) in route of layers.0.router" \
        "loop_op:op endless of the plugin at layers.0.router bad did not return within 1 s (plugin.patience) (plugin bad, "; do
        run --separate-stderr timeout 60 "$MOEFW" train small.ini -t 1 --plugin "$BAD/${name%%:*}.so" --set plugin.patience=1
        [ "$status" -eq 4 ]
        [[ "$stderr" == *"${name#*:}"* ]] || { echo "$stderr"; return 1; }
    done
    small good --set plugin.patience=1 --steps 300 -q --set train.save_every=0
}

@test "floating-point control that an op changes, also on a worker thread, is reported and restored" {
    fails 4 rounding_op "upward (layers.0.router bad): changes the rounding mode for all that is computed after it"
    [ "$(uname -m)" = x86_64 ] || skip "the tile sets a register of x86-64"
    fails 4 flush_tile "flusher (layers.0.router bad): sets flush-to-zero for all that is computed after it"
    run "$MOEFW" plugin check "$BAD/rounding_op.so"
    [[ "$output" == *"FAIL  "*"upward ("*"changes the rounding mode"* ]]
}

@test "a debugger stops in a plugin's function and prints its variables" {
    command -v gdb || skip "no gdb"
    ! grep -q __asan_init "$MOEFW" || skip "not under a sanitizer"
    run env OMP_WAIT_POLICY=passive timeout 120 gdb -nx -batch -iex 'set auto-load off' \
        -iex 'set debuginfod enabled off' -ex 'set breakpoint pending on' -ex 'break bad.h:route' -ex run \
        -ex 'print in->experts' -ex 'info sharedlibrary good' -ex kill --args \
        "$MOEFW" train small.ini -t 1 --steps 1 --set moe.experts=6 --plugin "$BAD/good.so" </dev/null
    [[ "$output" == *"Breakpoint 1, route ("* ]] || { echo "$output"; return 1; }
    [[ "$output" == *'$1 = 6'* ]]
    [[ "$output" == *"Yes "*"$BAD/good.so"* ]]
}

@test "the dynamic linker gets the plugin's path, which debuggers and profilers can open" {
    run env OMP_WAIT_POLICY=passive LD_DEBUG=files "$MOEFW" plugin info "$BAD/good.so"
    [ "$status" -eq 0 ]
    [[ "$output" == *"file=$BAD/good.so "* ]]
    [[ "$output" != *"/proc/self/fd/"* ]]
}

@test "plugin check takes --set: sizes and options; what is neither is an error" {
    run "$MOEFW" plugin check "$BAD/top_one.so"
    [ "$status" -eq 4 ]
    [[ "$output" == *"expected top_k 1; --set moe.top_k=N, moe.experts=N or an option of the plugin tries others"* ]]
    run "$MOEFW" plugin check "$BAD/top_one.so" --set moe.top_k=1 --set router.count=3
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    run "$MOEFW" plugin check "$BAD/top_one.so" --set router.cuont=3
    [ "$status" -eq 2 ]
    [[ "$output" == *"has no option 'cuont'; did you mean 'count'?"* ]]
    run "$MOEFW" plugin check "$BAD/top_one.so" --set router.count=33
    [ "$status" -eq 2 ]
    [[ "$output" == *"out of range: expected a whole number from 0 to 9"* ]]
    run "$MOEFW" plugin check "$BAD/top_one.so" --set train.lr=1
    [ "$status" -eq 2 ]
    [[ "$output" == *"expected moe.top_k=N, moe.experts=N"*"or an option of the plugin, router.OPTION=VALUE"* ]] || { echo "$output"; false; }
}

@test "plugin check ends at the first hang, and says where" {
    local name
    for name in loop_route:"in route" loop_op:"op endless of the plugin at layers.0.router bad"; do
        run --separate-stderr timeout 60 "$MOEFW" plugin check "$BAD/${name%%:*}.so" --seconds 3
        [ "$status" -eq 4 ]
        [ "${#lines[@]}" -eq 2 ] || { echo "$output"; return 1; }
        [[ "${lines[1]}" == "FAIL  processes "*"did not return"*"${name#*:}"*"the 3 s for all checks are over"* ]]
    done
}

# one_json: the output is one line, a JSON object
one_json() {
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [ "${#lines[@]}" -eq 1 ] || { echo "stdout: $output"; return 1; }
    [[ "$output" == '{'*'}' && "$output" != *'"init":'* && "$output" != *"from the op"* ]] || { echo "stdout: $output"; return 1; }
}

@test "standard output stays the program's: what a plugin prints goes to standard error, with its name" {
    run --separate-stderr "$MOEFW" plugin info --json "$BAD/prints.so"
    one_json
    [[ "$stderr" == *"plugin $BAD/prints.so, in a constructor: constructor"* ]]
    run --separate-stderr small prints --json --out here
    one_json
    [[ "$stderr" == *"plugin bad (layers.0.router), in init: {\"init\": ?[31m1}"* ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *"plugin bad (layers.1.router), in route: route "* ]]
    [[ "$stderr" == *"plugin bad (layers.0.router bad), in op loud: from the op"* ]]
    [[ "$stderr" == *"plugin bad (layers.0.router), in after_step: by write"* ]]
    [[ "$stderr" == *"plugin bad (layers.0.router), in fini: the end of it"* ]]
    run --separate-stderr "$MOEFW" plugin check --json "$BAD/prints.so"
    one_json
    run --separate-stderr "$MOEFW" config check --json small.ini --plugin "$BAD/prints.so"
    one_json
    run --separate-stderr "$MOEFW" eval --json here --plugin "$BAD/prints.so"
    one_json
}

@test "errors of ops name file and line of the plugin, layer and shapes" {
    fails 4 place_shape "add (layers.0.router bad, $srcdir/tests/plugins/bad/program/place_shape.c:1" \
        "; its inputs are f32 [32,16], f32 [32,8]"
    [[ "$stderr" =~ place_shape.c:10\) ]]
    fails 4 place_run "picky (layers.0.router bad, $srcdir/tests/plugins/bad/program/place_run.c:23): no more; its inputs are f32 [32,8]"
    fails 5 place_nan "log (layers.0.router bad, $srcdir/tests/plugins/bad/program/place_nan.c:12): output 0 [32,8] is NaN"
}

@test "mf_print shows values in each run, and changes no bit" {
    run --separate-stderr small prints_values --out shown
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"layers.0.router (plugin bad): logits: f32 [32,8] in training step 0: from "*" mean "*", 0 of 256 not finite: "* ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *"layers.1.router (plugin bad): ids: i32 [32] in training step 2: from "* ]]
    [[ "$stderr" == *"reals: f32 [3] in training step 0: from -2.5 to 4.5, mean 1, 0 of 3 not finite: 1 -2.5 4.5"* ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *"whole: i32 [2] in training step 0: from -9 to 7, mean -1, 0 of 2 not finite: 7 -9"* ]] || { echo "$stderr"; return 1; }
    run small good --out plain
    cmp shown/ckpt/step-3/model.safetensors plain/ckpt/step-3/model.safetensors
}
