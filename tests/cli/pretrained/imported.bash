# What tests of imported models share: a run of $MOE, and a copy of it and of its folder for each test.
# shellcheck shell=bash

# imported_file: for setup_file; imports $MOE into run
imported_file() {
    export OMP_WAIT_POLICY=passive
    export MOE="$srcdir/tests/golden/pretrained/mixtral" DENSE="$srcdir/tests/golden/pretrained/gpt2"
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" import "$MOE/hf" -o run -q -t 1 >&2
}

# imported_setup: for setup; copies of run, and of the model's folder as folder
imported_setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    cp -r "$BATS_FILE_TMPDIR/run" run
    cp -r "$MOE/hf" folder
    chmod -R u+w folder
}

# replace FILE OLD NEW: the first occurrence of a text
replace() {
    LC_ALL=C grep -q "$2" "$1" || return 1
    LC_ALL=C sed -i "0,/$2/s//$3/" "$1"
}
