# Damaged plugins: each is accepted or refused, and none ends the program by a signal or holds it up.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export MOEFW_PROBE_SECONDS=2
    # In a build with a sanitizer, a crash still ends the child by its signal.
    export ASAN_OPTIONS="handle_segv=0:handle_abort=0:${ASAN_OPTIONS-}"
    export UBSAN_OPTIONS="handle_segv=0:${UBSAN_OPTIONS-}" TSAN_OPTIONS="handle_segv=0:${TSAN_OPTIONS-}"
    ${CC:-cc} -std=c17 -O1 -o flip "$srcdir/tests/lib/flip.c"
}

# mutants FIRST LAST: with these seeds, of a router and a controller
mutants() {
    local seed plugin accepted=0 refused=0
    for plugin in routers/mlp_hadamard controllers/schedule; do
        for ((seed = $1; seed <= $2; seed++)); do
            ./flip "$builddir/plugins/$plugin.so" "$seed" "$PWD/mutant.so"
            status=0
            timeout -s KILL 20 "$MOEFW" plugin info ./mutant.so >out 2>err || status=$?
            case $status in
            0) accepted=$((accepted + 1)) ;;
            4) refused=$((refused + 1)) ;;
            *) echo "$plugin, seed $seed: status $status: $(head -c 500 err)"; return 1 ;;
            esac
            [ "$status" -eq 0 ] || grep -q "refused: " err || { echo "$plugin, seed $seed: $(cat err)"; return 1; }
        done
    done
    echo "# $((accepted + refused)) mutants: $accepted accepted, $refused refused" >&3
}

@test "damaged bytes of a plugin" {
    mutants 1 20
}

@test "damaged bytes of a plugin, 4,000 of them" {
    [ -n "${MOEFW_SLOW-}" ] || skip "slow: set MOEFW_SLOW=1"
    mutants 1001 3000
}
