# Whole commands in which a call of the system fails: no memory, a disk that does not read or
# write, an interrupted or a short transfer, no lock, no thread. tests/faults/loop.c judges.

setup() {
    # The sanitizers bring their own allocator, before which nothing can stand.
    if ldd "$builddir/libmoefw.so.0" | grep -qE 'lib[atl]san'; then skip "not under a sanitizer"; fi
    cd "$BATS_TEST_TMPDIR" || exit 1
}

loop() { # STRIDE VERB...
    run timeout -s KILL "${limit:-7200}" "$builddir/tests/faults/loop" "$builddir/tests/faults/faults.so" "$MOEFW" "$srcdir" "$@"
    echo "$output" | grep '^[#ok]' | cut -c 1-400
    [ -z "$MOEFW_SLOW" ] || echo "$output" | sed -n 's/^ok /# ok /p' >&3
    [ "$status" -eq 0 ]
    [ "$(grep -c '^not ok' <<<"$output")" = 0 ]
    grep -q '^ok ' <<<"$output"
}

@test "train and resume, with another option too: each 17th call fails" {
    loop 17 train resume change
}

@test "eval, generate, report, export, swap, import: each 17th call fails" {
    loop 17 eval generate report export swap import
}

@test "config, data, tokenize, plugin, graph, ckpt, runs, trace, quantize: each 17th call fails" {
    loop 17 config data tokenize plugin graph ckpt runs trace quantize
}

@test "compare: calls fail, and it continues to the same table" {
    loop 17 compare
}

@test "all verbs: every call fails" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 runs it, for some hours"
    limit=86400 loop 1
}
