# Plugins built against the headers of 0.1 (tests/plugins/abi01) load, pass the checks, and compute the same
# bits. A plain compiler builds them, as third parties do.

bats_require_minimum_version 1.5.0

setup_file() {
    export PLUGINS="$BATS_FILE_TMPDIR/plugins"
    local name
    for name in routers/noisy routers/bent experts/gated regularizers/even controllers/steer; do
        mkdir -p "$PLUGINS/${name%/*}"
        ${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -O2 -I"$srcdir/tests/plugins/abi01/include" -fPIC \
            -fvisibility=hidden -shared -o "$PLUGINS/$name.so" "$srcdir/tests/plugins/abi01/${name#*/}.c"
    done
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" XDG_DATA_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

@test "they load, and describe themselves" {
    for file in "$PLUGINS"/*/*.so; do
        run --separate-stderr "$MOEFW" plugin info --json "$file"
        [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
        [[ "$output" == *'"name":"'"$(basename "$file" .so)"'"'*'"abi":1'* ]]
    done
}

@test "they keep the rules" {
    for file in "$PLUGINS"/*/*.so; do
        run --separate-stderr "$MOEFW" plugin check --json "$file"
        [ "$status" -eq 0 ] || { echo "$output $stderr"; return 1; }
        [[ "$output" == *'"abi":1,"pass":true,'* ]]
    done
}

@test "20 steps with them have the bits of 0.1" {
    grep -qw avx2 /proc/cpuinfo 2>/dev/null || skip "the records need a processor with AVX2"
    "$MOEFW" doctor | grep -q '^built for .*avx2' || skip "this program was built without AVX2 kernels"
    run sh "$srcdir/tests/bits/check.sh" -p "$PLUGINS" "$MOEFW" abi01
    echo "$output"
    [ "$status" -eq 0 ]
    # and a plugin that computes something else is detected
    run sh "$srcdir/tests/bits/check.sh" -p "$PLUGINS" -s 2 "$MOEFW" abi01-bent
    [ "$status" -eq 1 ]
    [[ "$output" == "differs abi01-bent"* ]]
}
