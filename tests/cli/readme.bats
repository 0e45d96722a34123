# The commands of README.md work as they are printed, from the clone, with nothing installed.

bats_require_minimum_version 1.5.0

setup() {
    clone=$BATS_TEST_TMPDIR/clone
    mkdir "$clone"
    ln -s "$builddir" "$clone/build"
    cd "$clone" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" XDG_DATA_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v moefw | paste -sd:)
}

# block HEADING: the commands of the section's code blocks
block() {
    awk -v heading="## $1" '/^## /{inside = $0 == heading} /^```/{code = !code; next} inside && code' "$srcdir/README.md"
}

@test "a router in 60 seconds, from the clone" {
    block "Two commands" | grep '^PATH=' >walk
    block "A router in 60 seconds" >>walk
    [ "$(wc -l <walk)" -ge 8 ]
    # The commands themselves stay; options at their ends make training short.
    small='--steps 2 --set model.layers=1 --set model.dim=16 --set model.heads=2 --set model.seq=16 --set expert.hidden=16 --set train.eval_context=0'
    sed -E "s/ +#.*//; s/^moefw --plugin.*/& $small/; s/^moefw compare.*/& $small --seeds 2/
        s/^moefw bench.*/& --repetitions 1 --seeds 2 --dim 64/" walk >short
    EDITOR=true run bash -euc '. ./short' </dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [ -d mine/runs/default-1/ckpt/step-2 ]
    [[ "$output" == *"ok    gradients"* ]]
}

@test "a program is built with the library of the clone, as the README says" {
    pkg-config --version >/dev/null 2>&1 || skip "no pkg-config"
    block "Two commands" | grep '=$PWD/build' >paths
    . ./paths
    cat >program.c <<'END'
#include <moefw/run.h>
int main(void)
{
    moefw_run *run = moefw_run_new();
    moefw_run_free(run);
    return !run;
}
END
    # The line is that of the README; CC may hold flags.
    grep -q 'cc program.c $(pkg-config --cflags --libs libmoefw)' "$srcdir/README.md"
    # shellcheck disable=SC2046,SC2086
    ${CC:-cc} program.c $(pkg-config --cflags --libs libmoefw) -o program
    ./program
}

@test "moefw help shows manual pages that are not installed; all pages that the README names are known" {
    man -l "$srcdir/man/moefw.1" >/dev/null 2>&1 || skip "no man"
    run --separate-stderr "$MOEFW" help pretrained
    [ "$status" -eq 0 ]
    [[ "$output" == *"OLMoE"* ]]
    for page in "$srcdir"/man/*.[1-9]; do
        name=$(basename "$page")
        case ${name%.*} in moefw) continue ;; esac
        "$MOEFW" help "${name%.*}" | head -n 3 >shown || true
        [ -s shown ] || { echo "$name"; return 1; }
    done
    run "$MOEFW" help pretraned
    [ "$status" -eq 2 ]
}

@test "every command of the README is one that the program knows" {
    PATH=$builddir:$PATH
    grep -oE '^moefw [a-z]+' "$srcdir/README.md" | sort -u | while read -r _ verb; do
        moefw "$verb" --help >/dev/null || { echo "$verb"; exit 1; }
    done
    grep -oE '^moefw train [a-z][a-z-]*( |$)' "$srcdir/README.md" | sort -u | while read -r _ _ preset; do
        moefw config presets | grep -qx "$preset" || { echo "$preset"; exit 1; }
    done
}
