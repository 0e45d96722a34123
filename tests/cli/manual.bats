# The manual: the generated parts are up to date, and the examples work.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

@test "etc/moefw.ini and the manual's lists are up to date (else: sh tests/regenerate.sh)" {
    run sh "$srcdir/tests/regenerate.sh" --check
    [ "$status" -eq 0 ]
}

@test "the plugin in moefw-plugin(7) builds and passes plugin check" {
    awk '/^#include <moefw\/moefw.h>/ { p = 1 } /^\.Ed/ { p = 0 } p' "$srcdir/man/moefw-plugin.7" >mine.c
    # CC may hold flags.
    # shellcheck disable=SC2086
    $CC -std=c11 -Wall -Wextra -Werror -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -Wl,-z,defs -o mine.so mine.c -lm
    run "$MOEFW" plugin check ./mine.so
    [ "$status" -eq 0 ]
}

@test "the op in moefw-plugin(7), put into that plugin, builds and passes plugin check" {
    awk '/^#include <moefw\/moefw.h>/ { p = 1 } /^\.Ed/ { p = 0 } p' "$srcdir/man/moefw-plugin.7" >linear.c
    awk '/^static int signed_square_infer/ { p = 1 } p && /^\.Ed/ { exit } p' "$srcdir/man/moefw-plugin.7" >op.text
    # The op comes before the functions of the router, its use into route(), its examples last.
    {
        echo '#include <moefw/moefw.h>'
        echo '#include <math.h>'
        sed '/^\/\* in route/,$d' op.text
        sed -e '/^#include/d' -e '/^MF_EXPORT_PLUGIN/,$d' linear.c |
            awk 'FNR == NR { use = use $0 "\n"; next } /mf_tensor \*logits = / { printf "%s", use; next }
                 /out->logits = / { next } { print }' <(sed -n '/^\/\* in route/,/^ *out->logits/p' op.text | grep '^    ') -
        sed -n '/^\/\* for plugin check/,$p' op.text
    } >mine.c
    # shellcheck disable=SC2086
    $CC -std=c11 -Wall -Wextra -Werror -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -Wl,-z,defs -o mine.so mine.c -lm
    run "$MOEFW" plugin check ./mine.so
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [[ "$output" == *"ok    ops alone "*" 1 example"* ]]
}

@test "the configuration in moefw.ini(5) is accepted" {
    awk '/^The preset$/ { p = 1 } p && /^\.Ed/ { p = 0 } p && /^\[include\]/ { q = 1 } p && q' \
        "$srcdir/man/moefw.ini.5" >example.ini
    grep -q expert_bias example.ini
    "$MOEFW" config check example.ini
}

@test "moefw-run(5) has all keys of metrics" {
    "$MOEFW" train -q --steps 1 --out run --set model.layers=1 --set model.dim=16 --set model.heads=1 \
        --set model.seq=16 --set train.eval_context=0 --set expert.hidden=16 --set train.batch=1 --set train.eval_batches=1
    for key in $(grep -oE '"[a-z_]+":' run/metrics.jsonl | tr -d '":' | sort -u); do
        grep -qE "(^| )$key( |$)" "$srcdir/man/moefw-run.5" || # a label or an option
            grep -qE "^\[(regularizer|controller)\.$key\]|\.$key" run/config.ini || { echo "$key"; return 1; }
    done
    for file in config.ini manifest.json metrics.jsonl routing_sample.json weights.json report.html tokenizer.json ckpt/latest; do
        [ -s "run/$file" ]
        grep -qF "${file%/*}" "$srcdir/man/moefw-run.5"
    done
    for key in $(cat run/routing_sample.json run/weights.json | grep -oE '"[a-z_]+":' | tr -d '":' | sort -u); do
        grep -qE "(^| )$key( |$)" "$srcdir/man/moefw-run.5" || { echo "$key"; return 1; }
    done
}
