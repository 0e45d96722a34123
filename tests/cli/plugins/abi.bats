# The plugin ABI is frozen: the layout of the public headers is recorded (tests/plugins/abi/abi1.layout), and
# only appends pass. Plugins that were built with the headers of 0.1 are tried in abi01.bats.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cp -r "$srcdir/include" changed
    chmod -R u+w changed
}

# judge: compares the changed headers with the record
judge() {
    sh "$srcdir/tests/plugins/abi/layout.sh" changed "$builddir/include" >layout || return 3
    run sh "$srcdir/tests/plugins/abi/check.sh" "$srcdir/tests/plugins/abi/abi1.layout" layout
}

# edit FILE EXPRESSION: changes a header, and sees that it did
edit() {
    sed -i "$2" "changed/moefw/$1"
    ! cmp -s "changed/moefw/$1" "$srcdir/include/moefw/$1" || { echo "no edit: $2"; return 1; }
}

# refused WORDS...: the change is no append, and is named
refused() {
    judge
    [ "$status" -eq 1 ] || { echo "status $status: $output"; return 1; }
    for word; do
        [[ "$output" == *"$word"* ]] || { echo "lacks '$word': $output"; return 1; }
    done
    [[ "$output" != *"not recorded: "* ]]
}

# appended WORDS: nothing but this is to be recorded
appended() {
    judge
    [ "$status" -eq 1 ]
    [[ "$output" == *"not recorded: "*"$1"* ]] || { echo "$output"; return 1; }
    ! grep -v '^not recorded: ' <<<"$output" || return 1
}

@test "the headers are as they are recorded, wholly" {
    judge
    [ "$status" -eq 0 ] || { echo "$output"; echo "sh tests/plugins/abi/record.sh records what was appended"; return 1; }
    [ "$(grep -c '^field ' layout)" -ge 300 ]
    [ "$(grep -c '^const ' layout)" -ge 90 ]
}

@test "appends are accepted: a function, a field, a flag, a kind of plugin" {
    edit host.h 's/^} mf_host;/    int (*later)(mf_ctx *ctx);\n} mf_host;/'
    appended "field mf_host.later"
    edit routing.h 's/^} mf_router_in;/    mf_tensor *later;\n} mf_router_in;/'
    appended "field mf_router_in.later"
    edit plugin.h 's/^#define MF_ROUTER_STATS 2u/&\n#define MF_ROUTER_OTHER 16u/'
    appended "const MF_ROUTER_OTHER 16"
    edit plugin.h 's/    MF_ADAPTER = 5/    MF_ADAPTER = 5,\n    MF_DECODER = 6/'
    appended "const MF_DECODER 6"
}

@test "a field that is inserted, moved, removed or of another type is refused" {
    edit host.h 's/^    int (\*status)(const mf_graph \*g);/    int (*early)(mf_ctx *ctx);\n&/'
    refused "inserted: field mf_host.early" "changed: field mf_host.status"
    cp "$srcdir/include/moefw/host.h" changed/moefw
    edit plugin.h 's/^    uint32_t kind; .*/    int32_t kind;/'
    refused "changed: field mf_plugin.kind 24 4 uint32_t kind" "to: field mf_plugin.kind 24 4 int32_t kind"
    cp "$srcdir/include/moefw/plugin.h" changed/moefw
    edit op.h 's/^    uint64_t seed, step;/    uint64_t step, seed;/'
    refused "changed: field mf_exec.seed 8 8" "changed: field mf_exec.step 16 8"
    cp "$srcdir/include/moefw/op.h" changed/moefw
    edit host.h '/^    float \*(\*data)/d'
    refused "removed: field mf_host.data"
    cp "$srcdir/include/moefw/host.h" changed/moefw
    edit host.h 's/(mf_ctx \*ctx, const char \*pattern, int32_t i);/(mf_ctx *ctx, const char *pattern, int64_t i);/'
    refused "changed: field mf_host.find"
}

@test "another value, and a struct without a size that grows, are refused" {
    edit types.h 's/^#define MF_PARAM_FROZEN    4u/#define MF_PARAM_FROZEN    32u/'
    refused "changed: MF_PARAM_FROZEN is 32, recorded is 4"
    cp "$srcdir/include/moefw/types.h" changed/moefw
    edit status.h '/^    X(MF_EPEER/d'
    refused "removed: MF_EPEER"
    cp "$srcdir/include/moefw/status.h" changed/moefw
    edit types.h 's/^} mf_shape;/    int64_t more;\n} mf_shape;/'
    refused "changed: mf_shape has 48 bytes, 40 are recorded, and it cannot grow"
    cp "$srcdir/include/moefw/types.h" changed/moefw
    edit types.h 's/^} mf_attr;/    int64_t more;\n} mf_attr;/'
    refused "changed: mf_attr has 104 bytes"
}

@test "a record is only changed by appends" {
    mkdir -p tree/tests/plugins tree/build
    cp -r "$srcdir/include" tree && cp -r "$srcdir/tests/plugins/abi" tree/tests/plugins && cp -r "$builddir/include" tree/build
    chmod -R u+w tree
    sed -i 's/^} mf_host;/    int (*later)(mf_ctx *ctx);\n} mf_host;/' tree/include/moefw/host.h
    run sh tree/tests/plugins/abi/record.sh
    [ "$status" -eq 0 ]
    grep -q '^field mf_host.later ' tree/tests/plugins/abi/abi1.layout
    cp "$srcdir/include/moefw/host.h" tree/include/moefw
    run sh tree/tests/plugins/abi/record.sh
    [ "$status" -eq 1 ]
    [[ "$output" == *"removed: field mf_host.later"* ]]
}

@test "the names of the host's functions are those of its fields, in their order" {
    judge
    fields=$(sed -n 's/^field mf_host\.\([a-z_]*\) .*/\1/p' layout | tail -n +3 | tr '\n' ' ')
    printf '#include <moefw/moefw.h>\n#include <stdio.h>\nint main(void) { puts(MF_HOST_NAMES); return 0; }\n' >names.c
    ${CC:-cc} -I"$srcdir/include" -I"$builddir/include" -o names names.c
    [ "$(./names)" = "moefw host: ${fields% }" ]
}

@test "a plugin of a newer moefw is told, and a function that is missing is named" {
    edit host.h 's/^} mf_host;/    int (*later)(mf_ctx *ctx);\n} mf_host;/; s/copy_row"/copy_row later"/'
    local flags name
    for flags in "" "-DASKS"; do
        name=newer${flags#-D}
        # shellcheck disable=SC2086
        ${CC:-cc} -std=gnu11 -DLATER $flags -Ichanged -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
            -o "$name.so" "$srcdir/tests/plugins/bad/program/newer_host.c" -lm
    done
    printf '[model]\ndim = 16\nlayers = 2\nheads = 2\nkv_heads = 2\nseq = 16\n' >small.ini
    printf '[train]\nbatch = 2\nsteps = 2\neval_context = 0\neval_batches = 1\n' >>small.ini
    export XDG_CONFIG_HOME="$PWD/config" XDG_DATA_HOME="$PWD/data"
    run --separate-stderr "$MOEFW" train small.ini -t 1 --plugin ./newerASKS.so
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *"plugin bad was built for a newer moefw: it knows 1 functions that this one does not have, first mf->later"* ]]
    run --separate-stderr "$MOEFW" plugin check ./newer.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"FAIL  options "*" in route, in mf->later of a newer moefw"* ]] || { echo "$output"; return 1; }
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer's own report comes instead"
    run --separate-stderr "$MOEFW" train small.ini -t 1 --plugin ./newer.so
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"moefw: plugin bad called mf->later, which this moefw does not have"* ]]
    [[ "$stderr" == *"killed by SIGABRT in route, in mf->later of a newer moefw of layers.0.router"* ]]
}
