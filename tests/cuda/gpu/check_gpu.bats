# make check-gpu where there is no GPU: what it says, and all of it on the library that stands for CUDA.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/emulator.bash"

setup_file() {
    LACKING=$(lacking) # old versions of bats cannot skip here
    [ -x "$builddir/tests/unit/kernels/check_kernels" ] || LACKING="check_kernels is not built"
    export LACKING
    [ -z "$LACKING" ] || return 0
    made fake-cuda emulator
}

setup() {
    [ -z "$LACKING" ] || skip "$LACKING"
    cd "$BATS_TEST_TMPDIR" || exit 1
}

# page WORDS...: the script as make check-gpu calls it, with settings
page() {
    run env "$@" sh "$srcdir/tests/cuda/gpu/check_gpu.sh" "$srcdir" "$builddir" page.md
    echo "$output"
}

@test "make check-gpu calls the script" {
    run -0 make -s -n -C "$builddir" check-gpu
    [[ "$output" == *"tests/cuda/gpu/check_gpu.sh"* ]]
}

@test "without a GPU: what is missing, exit status 6, no page" {
    ! nvidia-smi -L 2>/dev/null | grep -q '^GPU 0' || skip "there is a GPU"
    page NVCC=no-such-nvcc
    [ "$status" -eq 6 ]
    [[ "$output" == *"nvcc, of the CUDA Toolkit"*"a GPU with its driver"* ]]
    [ ! -e page.md ]
}

@test "all checks on the library that stands for CUDA; the page says what did not run" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    page MOEFW_CHECK_FAKE=1 MOEFW_TEST_KERNELS="norm swiglu"
    [ "$status" -eq 0 ]
    grep -q 'this page tells nothing of a GPU' page.md
    grep -q '^| instructions against the emulator | not run | .* | no GPU; [0-9]* results of the emulator |$' page.md
    grep -q '^| memcheck | not run | .*compute-sanitizer needs a GPU |$' page.md
    grep -q '^| racecheck | not run ' page.md
    grep -q '^| kernels against ref | ok | .* [1-9][0-9]* passed, 0 failed |$' page.md
    grep -q '^| two runs, equal bits | ok | .* bytes of weights twice' page.md
    grep -q '^| training in f32 against the CPU | ok | .* 10 losses, at most ' page.md
    grep -q '^| systems, plugins, imported models | not run | .*make check runs them |$' page.md
    [ "$(grep -c '^| .* | FAILED ' page.md)" -eq 0 ]
}

@test "a check that fails is in the page, with its output; exit status 1" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    page MOEFW_CHECK_FAKE=1 MOEFW_TEST_KERNELS=norm MOEFW_FAKE_FAIL=40
    [ "$status" -eq 1 ]
    grep -q '^| training in f32 against the CPU | FAILED ' page.md
    grep -q '^## training in f32 against the CPU' page.md
}

@test "nvcc compiles the probe" {
    command -v "${NVCC:-nvcc}" >/dev/null || skip "no nvcc"
    run -0 "${NVCC:-nvcc}" -std=c++20 -O1 -arch=sm_90a -I"$builddir/include" -I"$srcdir/include" \
        -I"$srcdir/core" -I"$srcdir" -I"$srcdir/kernels/cuda" "$srcdir/tests/cuda/gpu/probe.cu" -o probe
    run ./probe
    [[ "$status" -eq 6 || "$status" -eq 0 ]] # 6: no GPU
}
