# Whole commands in which a call of the system fails: no memory, a disk that does not read or
# write, an interrupted or a short transfer, no lock, no thread, results and messages that cannot
# be written. tests/faults/loop.c judges. A program that was built with ASan runs with the library
# of ASan behind that of the faults, so its reports count in all tests.

setup() {
    if ldd "$builddir/libmoefw.so.0" | grep -q 'lib[tl]san'; then skip "not under this sanitizer"; fi
    leaks=()
    if ldd "$builddir/libmoefw.so.0" | grep -q libasan; then
        leaks=(--leaks "$(ldd "$builddir/libmoefw.so.0" | awk '/libasan/ { print $3 }')")
    fi
    cd "$BATS_TEST_TMPDIR" || exit 1
}

# Sets `leaks` for the library that looks for leaks, which is of the compiler and needs ptrace.
find_leaks() {
    local library
    [ "${#leaks[@]}" -eq 0 ] || return 0
    library=$(${CC:-cc} -print-file-name=liblsan.so)
    [ -e "$library" ] || return 1
    LD_PRELOAD=$library LSAN_OPTIONS=exitcode=1 "$MOEFW" --version >/dev/null 2>&1 || return 1
    leaks=(--leaks "$library")
}

loop() { # [--even] STRIDE VERB...
    local even=()
    [ "$1" != --even ] || { even=(--even) && shift; }
    run timeout -s KILL "${limit:-7200}" "$builddir/tests/faults/loop" "${even[@]}" "${leaks[@]}" \
        "$builddir/tests/faults/faults.so" "$MOEFW" "$srcdir" "$@"
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

@test "import: each 7th read fails, and the first one is interrupted" {
    loop --even 7 import:read
}

@test "compare: calls fail, and it continues to the same table" {
    loop 17 compare
}

@test "no memory is lost where a call fails: some calls of train, generate, report, export and import" {
    find_leaks || skip "no liblsan.so that works here"
    loop 97 train generate report export import
}

@test "all verbs: every call fails, and no memory is lost" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 runs it, for some hours"
    find_leaks || echo "# no liblsan.so that works here: leaks are not looked for" >&3
    limit=86400 loop 1
}
