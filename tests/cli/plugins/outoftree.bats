# A third-party plugin: started by `plugin new`, changed, built against an installed moefw with
# pkg-config and nothing else, installed by one INI file, checked, trained with. moefw is not
# rebuilt for it.

bats_require_minimum_version 1.5.0

setup_file() {
    export STAGE="$BATS_FILE_TMPDIR/stage"
    make -C "$builddir" install DESTDIR="$STAGE" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
    MOEFW=$(find "$STAGE" -path '*/bin/moefw')
    export MOEFW PKG_CONFIG_SYSROOT_DIR="$STAGE"
    PKG_CONFIG_LIBDIR=$(dirname "$(find "$STAGE" -name moefw.pc)")
    export PKG_CONFIG_LIBDIR
    export HOME="$BATS_FILE_TMPDIR/home"
    mkdir "$HOME"
    unset XDG_CONFIG_HOME XDG_DATA_HOME MOEFW_PLUGIN_PATH
    before=$(sha256sum "$MOEFW")
    export before
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    unset MAKEFLAGS MFLAGS MAKELEVEL
}

# A model that trains in a moment.
small() {
    "$MOEFW" train -t 1 --steps 3 --set model.dim=16 --set model.layers=2 --set model.heads=2 \
        --set model.kv_heads=2 --set model.seq=16 --set train.batch=2 --set train.eval_batches=1 --set train.eval_context=0 "$@"
}

@test "each kind's template builds with make and passes the check" {
    for kind in router expert regularizer controller adapter op; do
        run --separate-stderr "$MOEFW" plugin new $kind "my_$kind" -q
        [ "$status" -eq 0 ]
        [ "$output" = "my_$kind" ]
        run make -C "my_$kind" CC="$CC" CFLAGS="-O2 -Wall -Wextra -Werror -pedantic"
        [ "$status" -eq 0 ] || { echo "$output"; false; }
        [ "$(nm -D --defined-only "my_$kind/my_$kind.so" | grep -c .)" -eq 1 ]
        ! nm -D --undefined-only "my_$kind/my_$kind.so" | grep -q ' mf_' || false
        run make -C "my_$kind" check MOEFW="$MOEFW"
        [ "$status" -eq 0 ] || { echo "$output"; false; }
    done
}

@test "new refuses bad kinds and names, and existing folders" {
    run "$MOEFW" plugin new rooter x
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean 'router'?"* ]]
    for name in X 9a a-b int ../x ''; do
        run "$MOEFW" plugin new router "$name"
        [ "$status" -eq 2 ]
    done
    [ -z "$(ls -A)" ]
    mkdir there
    run "$MOEFW" plugin new router x there
    [ "$status" -eq 2 ]
    [ -z "$(ls -A there)" ]
}

@test "new, changed, built, dropped in, checked, trained" {
    "$MOEFW" plugin new router sharp -q
    cd sharp
    # what it says of itself is what it computes: only x is normalised
    [ "$(grep -c 'mf_l2_normalize(g, in->x' sharp.c)" -eq "$(grep -c mf_l2_normalize sharp.c)" ]
    grep -q '"linear in the direction of the token"' sharp.c
    sed -i 's/"10", 0.01, 1000/"20", 0.01, 1000/; s/"linear in the direction of the token"/"mine and sharper"/' sharp.c
    make CC="$CC" dropin
    grep -q "^file = $PWD/sharp.so" "$HOME/.config/moefw/plugins.d/sharp.ini"
    cd ..

    run "$MOEFW" plugin info --json sharp
    [[ "$output" == *'"name":"sharp"'*'"brief":"mine and sharper"'*'"default":20'* ]]
    run "$MOEFW" plugin list
    [[ "$output" == *"sharp "*"mine and sharper"* ]]
    run "$MOEFW" plugin check sharp
    [ "$status" -eq 0 ] || { echo "$output"; false; }

    printf '[router]\nplugin = sharp\nscale = 5\n' >mine.ini
    run --separate-stderr small mine.ini
    [ "$status" -eq 0 ] || { echo "$stderr"; false; }
    local dir=${lines[-1]}
    grep -q '^plugin = sharp' "$dir/config.ini"
    grep -q '^scale = 5' "$dir/config.ini"
    grep -q '"entropy"' "$dir/metrics.jsonl"

    run small --plugin sharp/sharp.so
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [ "$(sha256sum "$MOEFW")" = "$before" ]
}

@test "errors in its configuration: file, line, nearest name" {
    "$MOEFW" plugin new router sharp -q
    make -C sharp CC="$CC" dropin >/dev/null
    printf '[router]\nplugin = shrap\n' >a.ini
    run small a.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"a.ini:2:"*"'shrap'"*"did you mean 'sharp'?"* ]]
    printf '[router]\nplugin = sharp\nscael = 5\n' >a.ini
    run small a.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"a.ini:3: unknown key 'scael' in [router] (plugin sharp); did you mean 'scale'?"* ]]
    printf '[router]\nplugin = sharp\nscale = 0\n' >a.ini
    run small a.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"a.ini:3:"*"out of range: expected a number from 0.01 to 1000, found '0'"* ]]
    printf '[expert]\nplugin = %s/sharp/sharp.so\n' "$PWD" >a.ini
    run small a.ini --allow-config-plugins
    [ "$status" -eq 4 ]
    [[ "$output" == *"a.ini:2: plugin '"*"wrong kind: expected an expert, found a router"* ]]
    [ ! -e runs ]
}

@test "a live option that is not there: refused early if the plugin says what it needs, else in the step" {
    "$MOEFW" plugin new controller halve -q
    sed -i 's/^    const double now = step->loss;/&\n    double v;\n    const int got = mf->get_live(ctx, c->target, \&v);\n    if (got != MF_OK) return got;/' halve/halve.c
    make -C halve CC="$CC" >/dev/null
    run small --set controller.c.plugin="$PWD/halve/halve.so" --set controller.c.target=train.lrr
    [ "$status" -eq 2 ] || { echo "$output"; false; }
    [[ "$output" == *"--set: [controller.c]: no live option 'train.lrr'; did you mean 'train.lr'?"* ]]
    [ ! -e runs ]
    sed -i 's/mf->want_live(ctx, self->c->target)/MF_OK/' halve/halve.c
    make -C halve CC="$CC" >/dev/null
    run small --set controller.c.plugin="$PWD/halve/halve.so" --set controller.c.target=train.lrr
    [ "$status" -eq 1 ] || { echo "$output"; false; }
    [[ "$output" == *"no live option 'train.lrr'"* ]]
    [[ "$output" != *"missing or damaged"* ]]
}

@test "installed plugins are found by name and by path, and train" {
    run small --plugin routers/hash.so
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    run small --set router.plugin=hash
    [ "$status" -eq 0 ]
}
