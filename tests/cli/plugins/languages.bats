# Plugins in other languages, as share/examples shows them: built by the commands in their first
# lines against an installed tree, checked and trained. Each needs its language on the machine.

setup_file() {
    export STAGE="$BATS_FILE_TMPDIR/stage"
    make -C "$builddir" install DESTDIR="$STAGE" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
    MOEFW=$(find "$STAGE" -path '*/bin/moefw')
    EXAMPLES=$(find "$STAGE" -path '*/share/moefw/examples')
    export MOEFW EXAMPLES PKG_CONFIG_SYSROOT_DIR="$STAGE"
    PKG_CONFIG_LIBDIR=$(dirname "$(find "$STAGE" -name moefw.pc)")
    export PKG_CONFIG_LIBDIR
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
}

# sound FILE: it passes the check, and a model with it trains to the same bits twice
sound() {
    run timeout -s KILL 120 "$MOEFW" plugin check "$1"
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ "$(grep -c '^ok ' <<<"$output")" -ge 16 ]
    for out in a b; do
        "$MOEFW" train -q -t 1 --plugin "$1" --out $out --steps 3 --set data.path='builtin:topics?bytes=20000' \
            --set model.dim=16 --set model.layers=2 --set model.heads=2 --set model.kv_heads=2 --set model.seq=16 \
            --set moe.experts=4 --set train.batch=2 --set train.eval_batches=1 --set train.eval_context=0
    done
    cmp a/ckpt/step-3/model.safetensors b/ckpt/step-3/model.safetensors
}

@test "a router in Rust" {
    rustc --version >/dev/null 2>&1 || skip "no rustc that runs"
    rustc --edition 2021 --crate-type cdylib -O -C panic=abort -D warnings "$EXAMPLES/router.rs" -o direction_rust.so
    [ "$(nm -D --defined-only direction_rust.so | grep -c .)" -eq 1 ]
    sound ./direction_rust.so
}

@test "a router in Python through cffi" {
    python3 -c 'import cffi, sysconfig; assert sysconfig.get_config_var("Py_ENABLE_SHARED")' 2>/dev/null ||
        skip "no cffi, or no shared library of Python"
    python3 "$EXAMPLES/router.py"
    export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" # Python frees little at its end
    sound ./linear_python.so
    sed 's/b"weight"/b"wait"/' "$EXAMPLES/router.py" >wrong.py
    CC="env ${CC:-cc}" python3 wrong.py # a compiler of two words, as ccache cc
    run timeout -s KILL 120 "$MOEFW" train -q --plugin ./linear_python.so --steps 1
    [ "$status" -eq 4 ] || { echo "$output"; false; }
    [[ "$output" == *linear_python*"no parameter or buffer 'wait'"* ]] || { echo "$output"; false; }
}
