# Plugins of third parties (tests/plugins/third_party), built against an installed tree: what they say with the
# ABI beyond the plugins of the project, in the check, in training, and in decoding with a cache.

bats_require_minimum_version 1.5.0

setup_file() {
    export STAGE="$BATS_FILE_TMPDIR/stage" OMP_WAIT_POLICY=passive
    make -C "$builddir" install DESTDIR="$STAGE" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
    MOEFW=$(find "$STAGE" -path '*/bin/moefw')
    export MOEFW PKG_CONFIG_SYSROOT_DIR="$STAGE"
    PKG_CONFIG_LIBDIR=$(dirname "$(find "$STAGE" -name moefw.pc)")
    export PKG_CONFIG_LIBDIR XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export PLUGINS="$XDG_DATA_HOME/moefw/plugins"
    local source kind
    for source in "$srcdir"/tests/plugins/third_party/{ahead,by_id,by_prob,conv,earlier,outputs,quantized}.c; do
        kind=$(sed -n 's/.*MF_PLUGIN_INIT[A-Z_]*(MF_\([A-Z]*\),.*/\1s/p' "$source" | tr '[:upper:]' '[:lower:]')
        mkdir -p "$PLUGINS/$kind"
        # shellcheck disable=SC2046
        ${CC:-cc} -std=c11 -pedantic -Wall -Wextra -Werror -O2 $(pkg-config --cflags moefw) -fPIC \
            -fvisibility=hidden -shared -Wl,-z,defs -o "$PLUGINS/$kind/$(basename "$source" .c).so" "$source" -lm
    done
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
}

# A model that trains in a moment.
small() {
    "$MOEFW" train -q -t 1 --set data.path='builtin:topics?bytes=20000' --set train.steps=3 --set model.dim=16 \
        --set model.layers=2 --set model.heads=2 --set model.kv_heads=2 --set model.seq=16 --set moe.experts=4 \
        --set train.batch=2 --set train.eval_batches=1 --set train.eval_context=0 \
        --set train.log_every=1 "$@"
}

# with KIND FILE KEY=VALUE...: a configuration small.ini with that plugin in that section
with() {
    printf '[%s]\nplugin = %s\n' "$1" "$2" >small.ini
    printf '%s\n' "${@:3}" >>small.ini
}

# assigned RUN STEP: assignments of the first layer in that step of 32 tokens
assigned() {
    grep "\"step\":$2,\"split\":\"train\"" "$1/metrics.jsonl" | grep -o '"count":\[[0-9,]*' | head -1 |
        sed 's/.*\[//' | tr , '\n' | awk '{ n += $1 } END { print n }'
}

@test "they pass the check" {
    for file in "$PLUGINS"/*/*.so; do
        run "$MOEFW" plugin check "$file"
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    done
}

@test "the examples of plugins are short, and the commands in their first lines work as printed" {
    # Training is small, and the compiler accepts no warning.
    mkdir bin
    # shellcheck disable=SC2016
    printf '#!/bin/sh\ncase $1 in --*) exec "$MOEFW" "$@" $SMALL ;; *) exec "$MOEFW" "$@" ;; esac\n' >bin/moefw
    printf '#!/bin/sh\nexec %s -std=c17 -Wall -Wextra -Werror -pedantic "$@"\n' "${CC:-cc}" >bin/cc
    chmod +x bin/moefw bin/cc
    export PATH="$PWD/bin:$PATH" SMALL="-q -t 1 --set model.dim=16 --set model.layers=2 --set train.batch=2 --set train.steps=20"
    local line n=0
    for name in tally silent by_loss; do
        cp "$(find "$STAGE" -name $name.c | head -1)" .
        [ "$(wc -l <$name.c)" -lt 80 ]
        while read -r line <&3; do
            run sh -c "$line"
            [ "$status" -eq 0 ] || { echo "$line"; echo "$output"; return 1; }
            n=$((n + 1))
        done 3< <(sed -n 's/^ \*     \(\(cc\|moefw\) .*\)/\1/p' $name.c)
    done
    [ "$n" -eq 8 ]
    grep -q '"by_loss":' runs/*/metrics.jsonl
}

@test "decoding: a router that reads earlier tokens and does not say so fails" {
    sed 's/\.flags = MF_ROUTER_SEQUENCE, //' "$srcdir/tests/plugins/third_party/earlier.c" >silent.c
    # shellcheck disable=SC2046
    ${CC:-cc} -O1 $(pkg-config --cflags moefw) -fPIC -shared -o silent.so silent.c
    run "$MOEFW" plugin check ./silent.so
    [ "$status" -eq 4 ]
    [ "$(grep -c '^FAIL' <<<"$output")" -eq 1 ] || { echo "$output"; false; }
    [[ "$output" == *"FAIL  decoding "*"token 1 at once and decoded by 1"*MF_ROUTER_SEQUENCE* ]]
}

# spoiled SED WORDS...: quantized.c, changed so, fails the check of its ops with these words
spoiled() {
    sed "$1" "$srcdir/tests/plugins/third_party/quantized.c" >spoiled.c
    ! cmp -s spoiled.c "$srcdir/tests/plugins/third_party/quantized.c" || { echo "$1 changes nothing"; return 1; }
    # shellcheck disable=SC2046
    ${CC:-cc} -O1 $(pkg-config --cflags moefw) -fPIC -shared -o spoiled.so spoiled.c -lm
    run "$MOEFW" plugin check ./spoiled.so
    [ "$status" -eq 4 ] || { echo "$1: $output"; return 1; }
    row=$(grep '^FAIL  ops alone ' <<<"$output") || { echo "$1: $output"; return 1; }
    shift
    for word; do
        [[ "$row" == *"$word"* ]] || { echo "lacks '$word': $row"; return 1; }
    done
}

@test "ops alone: a wrong gradient, a gradient that is not declared, wrong memory" {
    spoiled 's/(1 - s \* s)/(1 - s)/' "example 1" "gradient" "(by differences), found"
    spoiled '/MF_OP_STRAIGHT_THROUGH/d' "example 0" "gradient"
    spoiled 's/(1 - s \* s)/INFINITY/' "example 1"
    spoiled '/^static int forward_round/,/^}/s/i < n/i <= n/' "example 0" "forward writes beyond output 0"
    spoiled '/^static int forward_round/,/^}/s/i = 0; i < n/i = 1; i < n/' "example 0" "leaves element 0 of output 0"
    spoiled '/^static void tile_backward/,/^}/s/int64_t i = t \* TILE/int64_t i = t * TILE + 1/' "example 1" \
        "backward leaves element 0 of output 0"
    spoiled 's/    const int64_t n = mf_shape_count(call->in\[0\].shape);/&\n    ((float *)call->in[0].data)[0] = 1;/' \
        "writes to input 0"
}

@test "token ids in the record: the loss of even probabilities is ln E" {
    with regularizer.ids by_id 'weight = 1'
    small small.ini --out run --set router.init_std=0
    grep -o '"ids":[-0-9.e]*' run/metrics.jsonl | head -1
    [[ $(grep -o '"ids":[-0-9.e]*' run/metrics.jsonl | head -1) == '"ids":1.38629'* ]]
}

@test "outputs of experts: sizes, gates and nothing past the last row" {
    # the expert is x p, and p is 1 / E; its rows past the end are NaN
    with regularizer.o outputs 'weight = 1'
    for more in moe.gate_scale=1 train.dtype=bf16 train.recompute=block train.accumulate=2; do
        rm -rf run
        small small.ini --out run --set router.init_std=0 --set expert.plugin=by_prob --set "$more" --set train.lr=0
        [ "$(grep -o '"o":0.0624[5-9]\|"o":0.0625' run/metrics.jsonl | wc -l)" -ge 3 ] || { grep -o '"o":[^,]*' run/metrics.jsonl; false; }
    done
    # silent assignments have no row: with them gates would not sum to 1
    small small.ini --out silent --set router.plugin=densemix --set router.init_std=0 --set expert.plugin=by_prob --set train.lr=0
    [ "$(grep -o '"o":0.0624[5-9]\|"o":0.0625' silent/metrics.jsonl | wc -l)" -ge 3 ] || { grep -o '"o":[^,]*' silent/metrics.jsonl; false; }
    # x is the input of the layer, and the outputs have the latent width
    small small.ini --out latent --set moe.latent=8
    grep -q '"o":[0-9.]*[1-9]' latent/metrics.jsonl
    # soft routing has no rows
    with regularizer.o outputs 'weight = 1' '[router]' 'plugin = soft'
    small small.ini --out soft --set moe.force_causal=yes
    grep -q '"o":0[,}]' soft/metrics.jsonl
}

@test "another number of experts a token while the run goes on, and after a restart" {
    with controller.fewer schedule 'target = moe.top_k' 'from = 2' 'to = 1' 'shape = step' 'end = 3'
    small small.ini --out run --set train.steps=6 --set train.save_every=4
    [ "$(assigned run 3)" -eq 64 ]
    [ "$(assigned run 4)" -eq 32 ]
    [ "$(assigned run 6)" -eq 32 ]
    grep -q '"moe.top_k"' run/metrics.jsonl
    # a run that ends after step 4 goes on with the same numbers
    small small.ini --out half --set train.steps=6 --set train.save_every=4 --steps 4
    "$MOEFW" train -q -t 1 --resume half --steps 6
    for run in run half; do
        grep '"step":[56],"split":"train"' $run/metrics.jsonl |
            sed 's/"tokens_per_s":[-0-9.e]*//; s/"wall_s":[-0-9.e]*//' >$run.txt
    done
    [ "$(wc -l <run.txt)" -eq 2 ]
    diff run.txt half.txt
    for k in 2.5 0 5; do
        with controller.fewer schedule 'target = moe.top_k' 'from = 2' "to = $k" 'shape = step' 'end = 1'
        run small small.ini --out "bad$k"
        [ "$status" -eq 4 ] || [ "$status" -eq 2 ] || { echo "$status $output"; false; }
        [[ "$output" == *"live option 'moe.top_k': expected a"* ]]
    done
}

@test "a router that reads earlier tokens: text with a cache equals full recomputation" {
    for by in mean pair; do
        with router earlier "by = $by"
        small small.ini --out "$by" --set train.steps=40 --set train.lr=0.003 --set model.seq=32
        a=$("$MOEFW" generate "$by" -q -p "the " -n 24 --temp 0.8 -s 3)
        b=$("$MOEFW" generate "$by" -q -p "the " -n 24 --temp 0.8 -s 3 --no-cache)
        [ "${#a}" -ge 20 ]
        [ "$a" = "$b" ]
        # past the end of the cache
        "$MOEFW" generate "$by" -q -p "the " -n 80 -s 3
    done
}

@test "a convolution over tokens, and balanced assignment: text with a cache equals full recomputation" {
    for plugin in conv base; do
        with router $plugin
        small small.ini --out $plugin --set train.steps=40 --set train.lr=0.003 --set model.seq=32
        a=$("$MOEFW" generate $plugin -q -p "the " -n 24 --temp 0.8 -s 3)
        b=$("$MOEFW" generate $plugin -q -p "the " -n 24 --temp 0.8 -s 3 --no-cache)
        [ "${#a}" -ge 20 ]
        [ "$a" = "$b" ] || { echo "$plugin: $a, $b"; false; }
    done
    # in training each of the 4 experts gets 16 of the 64 tokens of a step
    grep '"split":"train"' base/metrics.jsonl | grep -o '"count":\[[0-9,]*' | sort | uniq -c >counts
    [ "$(wc -l <counts)" -eq 1 ]
    [[ "$(<counts)" == *'80 "count":[16,16,16,16' ]] || { cat counts; false; }
}

@test "soft routing trains where tokens may see one another, and is refused in a decoder" {
    with router soft 'slots = 2'
    small small.ini --out run --set moe.force_causal=yes
    small small.ini --out bf16 --set moe.force_causal=yes --set train.dtype=bf16
    [ "$(grep -c '"loss"' run/metrics.jsonl)" -ge 3 ]
    run small small.ini --out other
    [ "$status" -eq 2 ]
    [[ "$output" == *"small.ini:2: router"*"leaks the future"* ]]
}

@test "an expert that reads later tokens is refused in a decoder" {
    with expert ahead
    run small small.ini --out run
    [ "$status" -eq 2 ]
    [[ "$output" == *"small.ini:2: expert "*"computes by looking at the whole sequence"*"moe.force_causal"* ]] || { echo "$output"; false; }
    small small.ini --out run --set moe.force_causal=yes
}

@test "experts of own widths and of zero cost, and experts up to a share of the probability" {
    with expert mixed 'constants = 2' 'copies = 1' 'zeros = 1'
    small small.ini --out run --set moe.experts=7 --set moe.top_k=3
    with router top_p 'p = 0.45'
    small small.ini --out other
    [ "$(assigned other 1)" -gt 32 ]
    [ "$(assigned other 1)" -lt 128 ]
}

@test "in C++17, and by clang" {
    local flags="-O2 -Wall -Wextra -Werror -pedantic -fPIC -fvisibility=hidden -shared" built=0
    if command -v g++ >/dev/null 2>&1; then
        # shellcheck disable=SC2046,SC2086
        g++ -std=c++17 $flags $(pkg-config --cflags moefw) -o gumbel.so "$srcdir/tests/plugins/third_party/gumbel.cc"
        run "$MOEFW" plugin check ./gumbel.so
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        built=1
    fi
    if command -v clang >/dev/null 2>&1; then
        # shellcheck disable=SC2046,SC2086
        clang -std=c11 $flags $(pkg-config --cflags moefw) -o kmeans.so "$srcdir/tests/plugins/third_party/kmeans.c"
        run "$MOEFW" plugin check ./kmeans.so
        [ "$status" -eq 0 ] || { echo "$output"; return 1; }
        built=1
    fi
    [ "$built" -eq 1 ] || skip "neither g++ nor clang"
}
