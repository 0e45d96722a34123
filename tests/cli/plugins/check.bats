# plugin check: good plugins pass every check, and the check of each rule detects a plugin that
# breaks it.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export BAD="$BATS_FILE_TMPDIR/bad"
    # In a build with a sanitizer, a crash still ends the process by its signal.
    export ASAN_OPTIONS="handle_segv=0:handle_abort=0:${ASAN_OPTIONS-}"
    export UBSAN_OPTIONS="handle_segv=0:${UBSAN_OPTIONS-}" TSAN_OPTIONS="handle_segv=0:${TSAN_OPTIONS-}"
    mkdir "$BAD"
    local source
    for source in "$srcdir"/tests/plugins/bad/{good,load/wrong_magic,rules/rule_*,adapters/rule_*}.c; do
        ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC \
            -fvisibility=hidden -shared -o "$BAD/$(basename "$source" .c).so" "$source" -lm
    done
}

# broken FILE CHECK WORDS...: that check fails with the words, and the exit status is 4
broken() {
    run --separate-stderr "$MOEFW" plugin check "$BAD/$1.so"
    [ "$status" -eq 4 ] || { echo "status $status: $output $stderr"; return 1; }
    local row
    row=$(grep "^FAIL  $2 " <<<"$output") || { echo "no failed row '$2': $output"; return 1; }
    [[ "$stderr" == *"checks failed"*"$2"* ]] || { echo "stderr: $stderr"; return 1; }
    shift 2
    for word; do
        [[ "$row" == *"$word"* ]] || { echo "lacks '$word': $row"; return 1; }
    done
}

# only FILE CHECK WORDS...: as broken, and every other check passes
only() {
    broken "$@"
    [ "$(grep -c '^FAIL' <<<"$output")" -eq 1 ] || { echo "$output"; return 1; }
}

# leaking FILE WORDS...: as only, with the check 'leaks'; where the C library does not count its blocks
# (musl), that check must say that it was skipped, and nothing else may fail
leaking() {
    run --separate-stderr "$MOEFW" plugin check "$BAD/good.so"
    if grep -q '^-  *leaks .*does not count its blocks' <<<"$output"; then
        run --separate-stderr "$MOEFW" plugin check "$BAD/$1.so"
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        grep -q '^-  *leaks ' <<<"$output"
    else
        only "$1" leaks "${@:2}"
    fi
}

@test "a good plugin passes; --json has all checks" {
    run --separate-stderr "$MOEFW" plugin check "$BAD/good.so"
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 29 ]
    run --separate-stderr "$MOEFW" plugin check --json "$BAD/good.so"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == '{"plugin":"bad","kind":"router","abi":1,"pass":true,"checks":[{"name":"descriptor","pass":true,'* ]]
}

@test "a refused plugin: one check, exit 4" {
    run --separate-stderr "$MOEFW" plugin check --json "$BAD/wrong_magic.so"
    [ "$status" -eq 4 ]
    [[ "$output" == '{"plugin":"'*'"pass":false,"checks":[{"name":"descriptor","pass":false,'*"wrong magic"* ]]
    run --separate-stderr "$MOEFW" plugin check nothing --json
    [ "$status" -eq 2 ]
    [[ "$output" == '{"plugin":"nothing","kind":null,"abi":null,"pass":false,"checks":[{"name":"found","pass":false,'*"unknown plugin 'nothing'"*']'*'}' ]]
}

@test "settings that no check takes: exit 2" {
    many=()
    for ((i = 0; i < 33; i++)); do many+=(--set moe.experts=4); done
    while IFS='|' read -r words expected; do
        # shellcheck disable=SC2086 # words
        run -2 "$MOEFW" plugin check "$BAD/good.so" $words
        [[ "$output" == *"$expected"* ]] || { echo "$words: $output"; return 1; }
    done <<TXT
--set moe.top_k=0|--set moe.top_k=0: expected moe.top_k=1 to 64
--set moe.experts=65|--set moe.experts=65: expected moe.experts=1 to 64
--set moe.experts=x|--set moe.experts=x: expected moe.experts=1 to 64
--set moe.experts=2 --set moe.top_k=3|--set: expected moe.top_k of at most moe.experts
${many[*]}|--set: expected at most 32 of them
TXT
    run -2 "$MOEFW" --check-plugin 1 "$BAD/good.so" first quick # as no parent calls it
}

@test "a wrong gradient, named with its tensor" {
    only rule_gradient gradients "gradient of x [" "(by differences), found"
}

@test "a crash, named with signal and function; the other checks still run" {
    broken rule_route shapes "killed by SIGSEGV in route"
    [ "$(grep '^FAIL' <<<"$output" | awk '{ print $2 }' | tr '\n' ' ')" = "shapes " ] # others that crash there follow from it
    only rule_option options "killed by SIGSEGV in init"
    broken rule_op options "killed by SIGSEGV in an op while the graph runs"
    [[ "$output" == *"; the same in "*", leaks, speed, process"* ]]
    [[ "$output" == *"processes "*"not asked: steps of training end this process"* ]]
    [ "$(wc -l <<<"$output")" -le 12 ] # of 30
}

@test "other tokens, padding, zeros, an expert that does not exist" {
    broken rule_batch "batch split" "routed alone and with others"
    grep -q "^-  *causality .*after 'batch split' failed: .*MF_ROUTER_NOT_CAUSAL" <<<"$output"
    only rule_mask padding "its loss 'size' changed"
    only rule_zeros "odd numbers" "a row of zeros" "not"
    broken rule_index options "expected expert in -1 .. 3, found 4"
}

@test "results that differ, state that is not saved, memory that is not released" {
    broken rule_same determinism "expected the same bits"
    only rule_restore options "wrote to layers.0.router.weight"
    export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" # the leak report of asan is not what this test expects
    leaking rule_leak "keep"
}

@test "choices: an expert twice, gates with a wrong sum or NaN" {
    broken rule_duplicate options "token 0 goes to expert 0 twice"
    broken rule_gates options "renormalize = 1 says that its gates sum to 1, found 0.7"
    broken rule_nan_gate options "its gate is not a number"
    broken rule_shape options "logits: expected f32 [12,4], found f32 [12,5]"
}

@test "numbers: one input's gradient, no gradient, one expert, logarithms of 0" {
    only rule_second gradients "gradient of layers.0.router.scale [4]" "(by differences), found"
    broken rule_no_gradient options "twice (layers.0.router bad)" "neither grad nor backward"
    broken rule_one shapes "one expert" "its loss 'per_other' is not a number"
    broken rule_log "odd numbers" "probabilities of 0 and 1" "a logarithm of 0?"
    broken rule_saturated "odd numbers" "probabilities of 0 and 1" "a logarithm of 0?"
}

@test "other tokens: later ones, padding in a penalty, rows of an expert, an input overwritten" {
    broken rule_future causality "MF_ROUTER_NOT_CAUSAL"
    ! grep -q '^FAIL  batch split' <<<"$output" || false
    only rule_penalty padding "the loss changed with the padding"
    broken rule_rows "batch split" "routed alone and with others: output"
    broken rule_input determinism "an op wrote into its input"
}

@test "threads, start weights, instances and controllers" {
    broken rule_threads determinism "threads, run 1"
    broken rule_start determinism "expected the same bits"
    export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" # the leak report of asan is not what this test expects
    leaking rule_instance "instances that came and went keep"
    broken rule_live determinism "no live option 'router.temprature'; did you mean 'router.temperature'?"
    only rule_memory "save and restore" "after the restart"
    only rule_last_batch "sums over a step" "layers.0.router.sum holds only the last micro-batch" "a tally"
}

@test "adapters: a wrong gradient, other sequences, a wrong shape, heads by their place" {
    only rule_adapter_gradient gradients "(by differences), found"
    broken rule_adapter_sequences "batch split" "with others: output"
    grep -q "^-  *causality .*changed when only later ones did" <<<"$output"
    broken rule_adapter_shape options "y: expected the shape [12,16]"
    only rule_adapter_path parameters "layers.0.some.place.other"
    only rule_adapter_heads "inactive heads" "heads, token 0, head 1"
}

@test "a difference of large numbers is judged by the noise that it has" {
    local e
    for e in 2 4 8 16 32 64; do
        run "$MOEFW" plugin check mutual_information --set moe.experts=$e
        [ "$status" -eq 0 ] || { echo "$e: $output"; return 1; }
    done
    # and 2 % more than the gradient of one of them is still detected
    ${CC:-cc} -std=gnu11 -O1 -DFACTOR=1.02f -I"$srcdir" -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -o "$BAD/mutual_wrong.so" "$srcdir/tests/plugins/third_party/mutual_wrong.c" -lm
    for e in 16 64; do
        run "$MOEFW" plugin check "$BAD/mutual_wrong.so" --set moe.experts=$e
        [ "$status" -eq 4 ]
        [[ "$output" == *"FAIL  gradients "*"(by differences), found"* ]]
    done
}

@test "--set moe.experts: no check tries another number" {
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -DBEFORE='if (dims->experts != 3) return mf->fail(ctx, MF_EPLUGIN, "three");' \
        -o "$BAD/three.so" "$srcdir/tests/plugins/bad/good.c"
    run "$MOEFW" plugin check "$BAD/three.so" --set moe.experts=3
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    run "$MOEFW" plugin check "$BAD/three.so"
    [ "$status" -eq 4 ]
}

@test "a child that refuses to start the checks: one failed row" {
    # its file is gone when the second child loads it
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -DBEFORE='extern int remove(const char *); if (dims->vocab == 61) remove(SELF);' -DSELF="\"$BAD/gone.so\"" \
        -o "$BAD/gone.so" "$srcdir/tests/plugins/bad/good.c"
    run "$MOEFW" plugin check "$BAD/gone.so"
    [ "$status" -eq 4 ] || { echo "$output"; false; }
    [ "$(grep -c '^FAIL' <<<"$output")" -eq 1 ] || { echo "$output"; false; }
    [[ "$output" == *"FAIL  options "*"gone.so"* ]] || { echo "$output"; false; }
}

@test "speed: an adapter is compared with its block without it" {
    run "$MOEFW" plugin check "$builddir/plugins/adapters/lora.so"
    [[ "$output" == *"ok    speed "*"a block takes "*" times as long as with no adapter"* ]] || { echo "$output"; false; }
}

# slopes ARGUMENT...: number of slopes that the check judges
slopes() {
    "$MOEFW" plugin check "$BAD/good.so" "$@" |
        sed -n 's/^ok    gradients *\([0-9]*\) slopes in [0-9]* settings.*/\1/p'
}

@test "--thorough: more settings, and more draws in each" {
    local quick thorough
    quick=$(slopes)
    thorough=$(slopes --thorough)
    [ "$quick" -ge 500 ]
    [ "$thorough" -gt $((2 * quick)) ] || { echo "$quick, $thorough"; false; }
}

@test "drawn models: most are taken by plugins that decline some settings, and some are declined" {
    local name drawn='' models declined
    for name in routers/linear routers/hash routers/mlp_hadamard experts/attention; do
        drawn=$("$MOEFW" plugin check "$builddir/plugins/$name.so" | grep '^ok    drawn models')
        read -r models declined < <(sed 's/.* \([0-9]*\) models of .*, \([0-9]*\) of them declined.*/\1 \2/' <<<"$drawn")
        [ "$declined" -gt 0 ]
        [ $((5 * declined)) -lt "$models" ] || { echo "$name: $drawn"; return 1; }
    done
}

@test "at least 20 rules have a plugin that breaks them, and each of these is tried here" {
    local file
    set -- "$srcdir"/tests/plugins/bad/{rules,adapters}/rule_*.c
    [ $# -ge 20 ]
    for file; do
        grep -qE "(only|broken|leaking) $(basename "$file" .c) " "$BATS_TEST_FILENAME" || { echo "$file"; return 1; }
    done
}

@test "a crash during training: exit 4, and a line that names op or function, and layer" {
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer's own report comes instead"
    cd "$BATS_TEST_TMPDIR"
    printf '[model]\ndim = 16\nlayers = 2\nheads = 2\nkv_heads = 2\nseq = 16\n[train]\nbatch = 2\neval_context = 0\n' >small.ini
    run "$MOEFW" train small.ini -t 1 --steps 1 --plugin "$BAD/rule_op.so"
    [ "$status" -eq 4 ]
    [[ "$output" == *"op crash of the plugin at layers.0.router bad killed by SIGSEGV"* ]]
    run "$MOEFW" train small.ini -t 1 --steps 1 --plugin "$BAD/rule_index.so"
    [ "$status" -eq 4 ]
    [[ "$output" == *"layers.0"*"expected expert in -1 .. "*"found "* ]]
}

# tree ARGUMENT...: every plugin of the tree passes
tree() {
    local file failed=
    for file in "$builddir"/plugins/*/*.so; do
        [[ "$file" != */plugins/comm/* ]] || continue # communicators are no plugins of a model
        run "$MOEFW" plugin check "$file" "$@"
        [ "$status" -eq 0 ] || { echo "$file: $output"; failed=yes; }
    done
    [ -z "$failed" ]
}

@test "every plugin of the tree passes" {
    tree
}

@test "every plugin of the tree passes with --thorough (slow)" {
    [ -n "${MOEFW_SLOW-}" ] || skip "slow: set MOEFW_SLOW=1"
    tree --thorough
}

@test "a new plugin of an uninstalled program builds against it" {
    [[ "$("$MOEFW" doctor)" == *"in place, from the build folder"* ]] || skip "an installed program"
    cd "$BATS_TEST_TMPDIR"
    unset MAKEFLAGS MFLAGS MAKELEVEL
    run env PATH="$PATH" "$MOEFW" plugin new router near
    [ "$status" -eq 0 ]
    next=$(sed -n 's/^    \(.* --plugin near.*\)$/\1/p' <<<"$output")
    [ "${next%% *}" = "$(readlink -f "$MOEFW")" ]
    PKG_CONFIG=false make -C near CC="$CC"
    run make -C near check
    [ "$status" -eq 0 ]
    grep -qF "$(readlink -f "$MOEFW") plugin info ./near.so" near/README
}
