# Kernels of CUDA on a CPU: the emulator finds planted faults, and each kernel gives the values of
# the reference kernels without a finding, in three orders of its threads with a seed each, where slow
# tests run with two: these six share the variants, or some of them.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/emulator.bash"

setup_file() {
    make_emulator
}

setup() {
    [ -z "$LACKING" ] || skip "$LACKING"
}

@test "the emulator finds what it says it finds" {
    run "$builddir/tests/cuda/check_emu"
    grep -v '^ok ' <<<"$output" | head -n 20
    [ "$status" -eq 0 ]
}

@test "gemms by warpgroups ask memory for little more than the least" {
    run "$builddir/tests/cuda/check_traffic"
    echo "$output"
    [ "$status" -eq 0 ]
}

# kernels ORDER SEED NAMES...: kernels against ref on the emulator
kernels() {
    local name
    [ -x "$builddir/tests/unit/kernels/check_kernels" ] || skip "check_kernels is not built"
    for name in "${@:3}"; do # a name that is none would test nothing
        grep -q "^MF_KERNEL\(_AS\)*($name," "$srcdir/kernels/kernels.def" || {
            echo "$name is not in kernels.def"
            return 1
        }
    done
    run env MOEFW_EMU_ORDER="$1" MOEFW_EMU_SEED="$2" MOEFW_TEST_KERNELS="${*:3}" \
        MOEFW_TEST_DEVICE=emu MOEFW_PLUGIN_PATH="$builddir/tests/cuda/judged" \
        CK_RUN_CASE="cpu against ref" "$builddir/tests/unit/kernels/check_kernels"
    grep -v '^ok ' <<<"$output" | head -n 20
    [ "$status" -eq 0 ]
    grep -q '^ok ' <<<"$output"
    [ "$(grep -c '^not ok ' <<<"$output")" -eq 0 ]
}

# spread N NAMES...: in three orders with two seeds; each of the six takes one of N variants, and other
# ones than those before. N of 6 has all variants once, N of 3 twice, in two orders. Where slow tests do
# not run, each order has one of its two parts, and takes half as many.
spread() {
    local every=$1 part=0 order seed
    [ -n "$MOEFW_SLOW" ] || every=$((2 * every))
    shift
    for order in 0 1 2; do
        for seed in 1 2; do
            case $MOEFW_SLOW$part in
            1 | 2 | 5) ;;
            *) MOEFW_TEST_EVERY=$every MOEFW_TEST_PART=$part kernels $order $seed "$@" ;;
            esac
            part=$((part + 1))
        done
    done
}

# launched FILE...: the kernels that files of kernels/cuda launch
launched() {
    (cd "$srcdir/kernels/cuda" && sed -n 's/^extern "C" void mf_cuda_\([a-z0-9_]*\)(const mf_kctx .*/\1/p' "$@")
}

# of_files FILE...: spread over all of these kernels, with N = 6, but for those that have fewer
# variants, or slow ones
of_files() {
    local every names name
    for every in 3 6 24; do
        names=
        for name in $(launched "$@"); do
            case $name in
            adamw | lion | momentum | descend | adafactor | random | dropout | check_* | gather_rows | index_lists | \
                take | put | one_hot | embedding | rope | cache_append) [ $every -eq 3 ] ;;
            linear_cross_entropy) [ $every -eq 24 ] ;;
            *) [ $every -eq 6 ] ;;
            esac && names="$names $name"
        done
        # shellcheck disable=SC2086
        [ -z "$names" ] || spread $every $names
    done
}

@test "elementwise kernels and sums" {
    of_files map.cuh sum.cuh
}

@test "optimizers, random numbers" {
    of_files optimizer.cuh random.cuh
}

@test "rows, norms, losses" {
    of_files rows.cuh norm.cuh loss.cuh swiglu.cuh
}

@test "indices, embeddings, positions" {
    of_files index.cuh tokens.cuh
}

@test "a token of each sequence" {
    of_files token.cuh
    MOEFW_TEST_FAMILY=token spread 12 gemm norm rope sum_rows
}

@test "routing and dispatch" {
    of_files route.cuh dispatch.cuh
}

@test "attention" {
    MOEFW_TEST_FAMILY=layers spread 12 attention attention_backward grouped_attention grouped_attention_backward
}

@test "attention of bf16 by matrix instructions" {
    MOEFW_TEST_FAMILY=attention spread 12 attention attention_backward
}

@test "gemms of any shape" {
    MOEFW_TEST_FAMILY=gemm spread 12 gemm
    MOEFW_TEST_FAMILY=bf16 spread 12 gemm
}

@test "gemms of bf16 by matrix instructions" {
    MOEFW_TEST_FAMILY=aligned spread 24 gemm
}

@test "gemms of bf16 by instructions of warpgroups" {
    MOEFW_EMU_ARCH=90 MOEFW_TEST_FAMILY=aligned spread 42 gemm
}

@test "weights as files have them" {
    spread 84 stored_gemm stored_rows
}

@test "graphs in which nodes became parts of others" {
    [ -x "$builddir/tests/unit/graph/check_fuse" ] || skip "check_fuse is not built"
    run env MOEFW_TEST_DEVICE=emu MOEFW_PLUGIN_PATH="$builddir/tests/cuda/judged" \
        "$builddir/tests/unit/graph/check_fuse"
    grep -v '^ok ' <<<"$output" | head -n 20
    [ "$status" -eq 0 ]
    grep -q '^ok .*rope_is_in_bf16' <<<"$output"
}

@test "each kernel is in a test above" {
    cd "$srcdir/kernels/cuda"
    files=$(grep -rl '^extern "C" void mf_cuda_.*const mf_kctx' --include='*.cuh' .)
    [ "$(wc -w <<<"$files")" -ge 10 ]
    for file in $files; do
        case $file in
        */*/*) # with families and numbers of their own
            for name in $(launched "$file"); do
                grep -q "^ .*spread [0-9]*.* $name\( \|\$\)" "$BATS_TEST_FILENAME" || {
                    echo "$name is in none"
                    return 1
                }
            done
            ;;
        *)
            grep -q "^ .*of_files.* ${file#./}\( \|\$\)" "$BATS_TEST_FILENAME" || {
                echo "$file is in none"
                return 1
            }
            ;;
        esac
    done
}

@test "weights as files have them, three orders and two seeds" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    kernels 2 1 stored_gemm stored_rows
    for order in 0 1 2; do
        for seed in 1 2; do
            MOEFW_TEST_EVERY=7 kernels $order $seed stored_gemm stored_rows
        done
    done
}

@test "gemms by warpgroups, three orders and two seeds" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    for order in 0 1 2; do
        for seed in 1 2; do
            MOEFW_EMU_ARCH=90 MOEFW_TEST_FAMILY=aligned kernels $order $seed gemm
        done
    done
}

@test "each kernel, three orders and two seeds" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    # weights as files have them have a test of their own, and no other layout of weights is better
    all=$(sed -n 's/^MF_KERNEL[_AS]*(\([a-z0-9_]*\),.*/\1/p' "$srcdir/kernels/kernels.def" |
        grep -v '^stored_\|^pack_weights$')
    [ "$(wc -w <<<"$all")" -eq $(($(grep -c '^MF_KERNEL' "$srcdir/kernels/kernels.def") - 3)) ]
    for order in 0 1 2; do
        for seed in 1 2; do
            # shellcheck disable=SC2086
            kernels $order $seed $all
        done
    done
}

# planted KIND NAME...: faults of a kind, all of which are found
planted() {
    local kind=$1
    shift
    run sh "$srcdir/tests/cuda/mutants.sh" "$kind" "$srcdir" "$builddir" "$@"
    grep -v ': found by' <<<"$output" || true # these are shown if the test fails
    [ "$status" -eq 0 ]
}

@test "faults planted in kernels are found: one" {
    [ -x "$builddir/tests/unit/kernels/check_kernels" ] || skip "check_kernels is not built"
    planted kernels scan-barrier
    [ "$(grep -c ': found by' <<<"$output")" -eq 1 ]
}

@test "faults planted in kernels are found: all" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    planted kernels
    [ "$(grep -c ': found by' <<<"$output")" -ge 100 ]
}

@test "faults planted in host code are found: all" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    made fake-cuda
    planted host
    [ "$(grep -c ': found by' <<<"$output")" -ge 30 ]
}
