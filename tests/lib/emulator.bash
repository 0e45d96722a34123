# emulator.bash: for tests on the emulator of CUDA, and on libraries that stand for those of CUDA.

# lacking: in words, what the emulator needs and this system lacks; nothing if it has all
lacking() {
    read -ra cxx <<<"${CXX:-g++}" # it may have several words
    if ! command -v "${cxx[0]}" >/dev/null; then
        echo "no C++ compiler"
    elif ! grep -q '^#define __x86_64__ 1' <<<"$("${cxx[@]}" -dM -E -x c++ /dev/null)"; then
        echo "the emulator switches stacks in x86-64 code"
    fi
}

# make_emulator: for setup_file; sets LACKING to what the system lacks, in words
make_emulator() {
    LACKING=$(lacking) # old versions of bats cannot skip here
    export LACKING
    [ -n "$LACKING" ] || made emulator
}

# made TARGET...: makes what several test files need, one file at a time: two makes would write
# the same objects at once
made() {
    local lock=(env)
    command -v flock >/dev/null && lock=(flock "$builddir/config.status")
    "${lock[@]}" make -s -C "$builddir" "$@"
}
