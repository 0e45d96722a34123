# libmoefw as another program finds it: what it exports, and the examples, built against an
# installed tree with pkg-config and nothing else.

bats_require_minimum_version 1.5.0

setup_file() {
    export STAGE="$BATS_FILE_TMPDIR/stage"
    make -C "$builddir" install DESTDIR="$STAGE" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
    PKG_CONFIG_LIBDIR=$(dirname "$(find "$STAGE" -name libmoefw.pc)")
    LIBRARY=$(find "$STAGE" -name libmoefw.so.0)
    export PKG_CONFIG_LIBDIR LIBRARY PKG_CONFIG_SYSROOT_DIR="$STAGE"
    LD_LIBRARY_PATH=$(dirname "$LIBRARY")
    export LD_LIBRARY_PATH
    export HOME="$BATS_FILE_TMPDIR/home"
    mkdir "$HOME"
    unset XDG_CONFIG_HOME XDG_DATA_HOME MOEFW_PLUGIN_PATH
    sanitizers=$(sed -n 's/^MF_CFLAGS = //p' "$builddir/Makefile" | tr ' ' '\n' | grep '^-fsanitize' | tr '\n' ' ' || true)
    export sanitizers
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
}

# build NAME FLAGS...: an example of the source tree, as ./NAME
build() {
    name=$1
    shift
    # The variables hold lists of flags.
    # shellcheck disable=SC2046,SC2086
    $CC -std=c11 -Wall -Wextra -Werror -pedantic "$srcdir/share/examples/$name.c" -o "$name" "$@" \
        $sanitizers $(pkg-config --cflags --libs libmoefw)
}

@test "the library exports what is recorded and nothing else" {
    [ "$(readelf -d "$LIBRARY" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')" = libmoefw.so.0 ]
    [ "$(readlink "$(dirname "$LIBRARY")/libmoefw.so")" = libmoefw.so.0 ]
    nm -D --defined-only "$LIBRARY" | sed -n 's/^[0-9a-f]* [TDBR] //p' | sort >found
    diff "$srcdir/tests/golden/library/symbols" found
    nm -D --defined-only "$LIBRARY" | grep -q ' A MOEFW_0\.2'
}

@test "every function that the headers declare is exported" {
    sed -n 's/^MOEFW_API .*\(moefw_[a-z_]*\)(.*/\1@@MOEFW_0.2/p' "$srcdir/include/moefw/run.h" | sort >declared
    diff "$srcdir/tests/golden/library/symbols" declared
}

@test "the library has no verb, little static thread storage, and opens in a program that does not know it" {
    nm "$LIBRARY" >names # with those that are not exported
    grep -q ' t mf_trainer_step$' names
    nm "$builddir/moefw" | grep -q ' mf_verb_train$' # so they are called in the program
    [ "$(grep -cE ' [A-Za-z] (mf_(verb|cli)_|mf_report_write|moefw_main)' names)" -eq 0 ]
    [ $((0x$(readelf -lW "$LIBRARY" | awk '$1 == "TLS" { print substr($6, 3) }'))) -lt 512 ]
    run readelf -d "$LIBRARY"
    [[ "$output" != *STATIC_TLS* ]]
    cat >open.c <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static void *open_it(void *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *(*version)(void) = 0;
    if (library) *(void **)&version = dlsym(library, "moefw_version");
    if (!version) return puts(dlerror()), path;
    puts(version());
    return 0;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    pthread_attr_t small;
    void *failed;
    (void)argc;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 128 << 10);
    if (pthread_create(&thread, &small, open_it, argv[1])) return 2;
    pthread_join(thread, &failed);
    return failed != 0;
}
END
    # a sanitizer must be the first library of the process
    ! grep -qE '__(asan|tsan)_' "$LIBRARY" || skip "not under a sanitizer"
    $CC -o open open.c -ldl -pthread
    run env -u LD_LIBRARY_PATH ./open "$LIBRARY"
    [ "$status" -eq 0 ]
    [ "$output" = "$(sed -n 's/^#define MOEFW_VERSION "\(.*\)"/\1/p' "$builddir/include/moefw/version.h")" ]
}

@test "the program runs without the library, and exports nothing of its insides" {
    moefw=$(find "$STAGE" -path '*/bin/moefw')
    run readelf -d "$moefw"
    [[ "$output" != *NEEDED*libmoefw* ]]
    cp "$moefw" elsewhere
    env -u LD_LIBRARY_PATH ./elsewhere --version
    run nm -D --defined-only "$moefw"
    [[ "$output" != *mf_* ]]
}

@test "the headers are clean in C11 and in C++17" {
    for header in run; do
        echo "#include <moefw/$header.h>" >a.c
        # shellcheck disable=SC2046
        $CC -std=c11 -Wall -Wextra -Werror -pedantic -fsyntax-only $(pkg-config --cflags libmoefw) a.c
        if command -v g++ >/dev/null; then
            cp a.c a.cc
            # shellcheck disable=SC2046
            g++ -std=c++17 -Wall -Wextra -Werror -pedantic -fsyntax-only $(pkg-config --cflags libmoefw) a.cc
        fi
    done
}

@test "the examples are short" {
    for example in "$srcdir"/share/examples/*.c; do
        [ "$(wc -l <"$example")" -lt 80 ]
    done
}

@test "train_own_batches learns its sequence" {
    build train_own_batches
    run --separate-stderr ./train_own_batches 120
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[0]}" == "step 1: loss "* ]]
    loss=$(sed -n 's/^an unseen batch: loss //p' <<<"$output")
    awk "BEGIN { exit !($loss < 1) }"
    [[ "${lines[-1]}" == "0 2 4 6 8 -> 10 12 14"* ]]
}

@test "two_models trains both at once, each as it does alone" {
    build two_models -pthread
    run --separate-stderr ./two_models 4
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    for router in linear cosine; do
        loss=$(sed -n "s/^$router: validation loss //p" <<<"$output")
        "$(find "$STAGE" -path '*/bin/moefw')" train default -q -o "$router" -t 1 --steps 4 \
            --set 'data.path=builtin:topics?bytes=40000' --set router.plugin="$router"
        recorded=$(grep '"split":"val"' "$router/metrics.jsonl" | tail -n 1 | sed 's/.*"task_loss":\([0-9.e-]*\).*/\1/')
        awk "BEGIN { d = $loss - $recorded; exit !(d < 1e-6 && d > -1e-6) }"
    done
}

@test "text_server answers line by line" {
    moefw=$(find "$STAGE" -path '*/bin/moefw')
    "$moefw" train default -q -o run -t 1 --steps 3 --set model.dim=32 --set model.layers=2 \
        --set 'data.path=builtin:topics?bytes=40000'
    build text_server
    run --separate-stderr bash -c "printf 'the sea\n\nthe garden\n' | ./text_server run 12"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [ "${#lines[@]}" -eq 3 ]
    [[ "${lines[1]}" == "error: the prompt is empty"* ]]
    again=$(printf 'the sea\n' | ./text_server run 12)
    [ "$again" = "${lines[0]}" ]
    run --separate-stderr ./text_server /nonexistent
    [ "$status" -eq 1 ]
    [[ "$stderr" == "/nonexistent"* ]]
}

@test "own_router registers a router of the program and trains it" {
    command -v g++ >/dev/null || skip "no C++ compiler"
    # shellcheck disable=SC2046,SC2086
    g++ -std=c++17 -Wall -Wextra -Werror "$srcdir/share/examples/own_router.cc" -o own_router \
        $sanitizers $(pkg-config --cflags --libs libmoefw)
    run --separate-stderr ./own_router 3
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[-1]}" == "router.start = 2" ]]
    [[ "$output" == *"val, step 3: loss "* ]]
}

@test "errors come through the handle, and nothing is printed" {
    cat >errors.c <<'END'
#include <moefw/run.h>
#include <stdio.h>
#include <string.h>

static int expect(moefw_run *run, int rc, int expected, const char *part)
{
    if (rc == expected && strstr(moefw_run_message(run), part)) return 0;
    fprintf(stderr, "%d: %s\n", rc, moefw_run_message(run));
    return 1;
}

int main(void)
{
    moefw_run *run = moefw_run_new();
    int bad = expect(run, moefw_run_configure(run, "nothing.ini"), MF_ENOTFOUND, "nothing.ini");
    bad |= moefw_run_configure(run, "default");
    bad |= expect(run, moefw_run_set(run, "train.lr", "-1"), MF_ECONFIG, "lr");
    bad |= expect(run, moefw_run_set(run, "no.key", "1"), MF_ECONFIG, "no");
    bad |= moefw_run_set(run, "data.path", "missing.txt");
    bad |= expect(run, moefw_run_start(run, NULL), MF_EINPUT, "missing.txt");
    bad |= expect(run, moefw_run_open(run, "missing", NULL), MF_EINPUT, "missing");
    bad |= moefw_run_set(run, "data.path", "builtin:topics?bytes=40000");
    bad |= moefw_run_set(run, "train.lr", "1000") | moefw_run_set(run, "train.clip", "0");
    bad |= moefw_run_set(run, "train.warmup", "0") | moefw_run_set(run, "train.steps", "60");
    bad |= moefw_run_set(run, "model.dim", "32") | moefw_run_set(run, "model.layers", "2");
    bad |= moefw_run_set(run, "train.schedule", "constant");
    bad |= moefw_run_set(run, "train.weight_decay", "0") | moefw_run_set(run, "train.beta2", "0");
    bad |= moefw_run_start(run, NULL);
    bad |= expect(run, moefw_run_train(run), MF_ENONFINITE, "step ");
    bad |= strstr(moefw_run_message(run), "--") != NULL;
    moefw_run_free(run);
    return bad;
}
END
    # shellcheck disable=SC2046,SC2086
    $CC -std=c11 -Wall -Wextra -Werror errors.c -o errors $sanitizers $(pkg-config --cflags --libs libmoefw)
    run --separate-stderr ./errors
    echo "$stderr"
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    [ -z "$stderr" ]
}
