# quickstart: what it prints and refuses, without installing or building anything. The script works
# on its own folder, so the tests run a copy in a small tree.

setup() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree/build-aux" "$tree/bin"
    cp "$srcdir/quickstart" "$tree/"
    cp "$srcdir/build-aux/packages.txt" "$tree/build-aux/"
    cd "$tree" || return 1
    # With these flags nothing compiles, so every library counts as missing.
    export CPPFLAGS=-nostdinc
    # apt-get, sudo and make only report here that they were called.
    for tool in apt-get sudo autoreconf; do
        printf '#!/bin/sh\necho "$0 $*" >>%s/called\n' "$tree" >"bin/$tool"
        chmod +x "bin/$tool"
    done
    export PATH="$tree/bin:$PATH"
}

@test "help lists jobs and options" {
    run ./quickstart --help
    [ "$status" -eq 0 ]
    for word in run build check --yes --no-install --dry-run "exit 6"; do
        [[ "$output" == *"$word"* ]]
    done
}

@test "an unknown argument is refused with what is expected" {
    run ./quickstart --frobnicate
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown argument '--frobnicate'"*"--dry-run"* ]]
    [ ! -e build ]
}

@test "dry run shows every command and does nothing" {
    run ./quickstart --dry-run check
    [ "$status" -eq 0 ]
    [[ "$output" == *"missing: "*"libjansson-dev"*"libutf8proc-dev"*"check"* ]]
    [[ "$output" == *"+ "*"apt-get install -y --no-install-recommends "*libinih-dev* ]]
    [[ "$output" == *"+ autoreconf -i"*"+ cd build && ../configure"*"+ make -C build -j"* ]]
    [[ "$output" != *"nothing is to be done"* ]]
    [ ! -e build ]
    [ ! -e called ]
}

@test "--no-install says what to install and exits 6" {
    run ./quickstart --no-install
    [ "$status" -eq 6 ]
    [[ "$output" == *"apt-get install --no-install-recommends "*libxxhash-dev* ]]
    [ ! -e called ]
}

@test "without root and without a terminal: the exact line, exit 6, nothing called" {
    printf '#!/bin/sh\necho 1000\n' >bin/id && chmod +x bin/id
    run ./quickstart </dev/null
    [ "$status" -eq 6 ]
    [[ "$output" == *"sudo apt-get install --no-install-recommends "*libopenblas-openmp-dev* ]]
    [[ "$output" == *"--yes"* ]]
    [ ! -e called ]
}

@test "without root, --yes uses sudo and checks the result" {
    printf '#!/bin/sh\necho 1000\n' >bin/id && chmod +x bin/id
    run ./quickstart --yes </dev/null
    [ "$status" -eq 6 ]
    grep -q 'sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends .*libinih-dev' called
    [[ "$output" == *"still missing after the installation: "*libinih-dev* ]]
}

@test "packages for check are requested only by check" {
    run ./quickstart --dry-run build
    [[ "$output" != *bats* ]]
}

@test "CC may hold several words; the first is the program" {
    unset CPPFLAGS
    CC="env gcc" run ./quickstart --dry-run build
    one=$(CC=gcc ./quickstart --dry-run build)
    [ "$status" -eq 0 ]
    [ "$output" = "$one" ]
    [[ "$(CC='frobnicate gcc' ./quickstart --dry-run build)" == "$one" ]]
}

@test "a failing step shows the end of its output and how to repeat it" {
    unset CPPFLAGS
    printf '#!/bin/sh\necho the cause of it\nexit 3\n' >bin/autoreconf
    run ./quickstart build
    [ "$status" -eq 1 ]
    [[ "$output" == *"+ autoreconf -i"*"the cause of it"*"this failed: autoreconf -i"*"./quickstart build"* ]]
    grep -q 'the cause of it' build/quickstart.log
}

@test "the build says how many files it compiles, how far it is, and where the log is" {
    unset CPPFLAGS
    printf '#!/bin/sh\nexit 0\n' >configure
    cat >bin/make <<'END'
#!/bin/sh
case "$*" in *-q*) exit 1 ;; esac
for i in 1 2 3; do
    case "$*" in
    *-n*) echo "echo \"  CC      \" file$i.o;gcc" ;;
    *) echo "  CC       file$i.o" ;;
    esac
done
[ ! -e broken ]
END
    chmod +x configure bin/make
    run ./quickstart build --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"compiling 3 files, "*"the log is build/quickstart.log"*"  3 of 3 files"* ]]
    grep -q 'CC       file3.o' build/quickstart.log
    : >broken
    run ./quickstart build --yes
    [ "$status" -eq 1 ]
    [[ "$output" == *"this failed: make -C build -j"* ]]
}

@test "check tells what the failed tests said" {
    unset CPPFLAGS
    printf '#!/bin/sh\nexit 0\n' >configure
    cat >bin/make <<'END'
#!/bin/sh
case "$*" in *check) ;; *) exit 0 ;; esac
mkdir -p build/tests/unit
printf ':test-result: PASS d\n' >build/tests/unit/d.trs
printf ':test-result: PASS a\n:test-result: FAIL b\n' >build/tests/tap.trs
printf 'ok 1 a\n# of the good one\nnot ok 2 b\n# the line that failed\n' >build/tests/tap.log
printf ':test-result: FAIL c\n' >build/tests/plain.trs
printf 'no such thing\n' >build/tests/plain.log
echo 'FAIL: tap 2 b'
exit 2
END
    chmod +x configure bin/make
    run ./quickstart check --yes
    [ "$status" -ne 0 ]
    [[ "$output" == *"no such thing"*"the line that failed"* ]]
    [[ "$output" != *"of the good one"* ]]
    [[ "$output" == *"2 passed, 2 failed, 0 skipped" ]]
}

@test "a check that ran no unit test fails and says why" {
    unset CPPFLAGS
    printf '#!/bin/sh\nexit 0\n' >configure
    cat >bin/make <<'END'
#!/bin/sh
case "$*" in *check) ;; *) exit 0 ;; esac
mkdir -p build/tests/cli
printf ':test-result: PASS a\n' >build/tests/cli/a.trs
END
    chmod +x configure bin/make
    run ./quickstart check --yes
    [ "$status" -eq 1 ]
    [[ "$output" == *"1 passed, 0 failed, 0 skipped"*"no unit test ran: "*"the library check"* ]]
}

@test "a path with a space is refused" {
    mkdir "$BATS_TEST_TMPDIR/a b" && cp -r quickstart build-aux "$BATS_TEST_TMPDIR/a b/"
    run "$BATS_TEST_TMPDIR/a b/quickstart"
    [ "$status" -eq 1 ]
    [[ "$output" == *"holds a space"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/a b/build" ]
}

@test "a folder that cannot be written is refused" {
    : >build # not a folder: has the effect of read-only, also for root
    run ./quickstart
    [ "$status" -eq 1 ]
    [[ "$output" == *"read-only"*"Copy it"* ]]
}

@test "it works from any folder" {
    cd /
    run "$tree/quickstart" --dry-run
    [ "$status" -eq 0 ]
}

@test "what is optional and not here is said with the command that adds it" {
    unset CPPFLAGS
    printf '#!/bin/sh\nexit 0\n' >configure
    mkdir -p "$BATS_TEST_TMPDIR/few"
    for tool in sh env dirname pwd mkdir mktemp rm tr grep sed tail head cat awk id nproc gcc cc as ld pkg-config make autoconf automake command apt-cache; do
        at=$(command -v "$tool") && ln -s "$at" "$BATS_TEST_TMPDIR/few/$tool"
    done
    PATH="$tree/bin:$BATS_TEST_TMPDIR/few" run ./quickstart --dry-run build
    echo "$output"
    [[ "$output" == *"built without: runs of several processes"*"; to add this later: "*"apt-get install openmpi-bin libopenmpi-dev"*" && ./quickstart build"* ]]
    [[ "$output" != *"missing: "*openmpi* ]]
}

@test "a package that arrives later is noticed: the build is configured again" {
    unset CPPFLAGS
    for tool in mpicc make; do printf '#!/bin/sh\nexit 0\n' >"bin/$tool"; done
    chmod +x bin/mpicc bin/make
    printf '#!/bin/sh\nexit 0\n' >configure
    chmod +x configure
    mkdir build
    printf 'source_folder = %s\n' "$tree" >build/Makefile
    printf '#!/bin/sh\necho "config.status $*" >>%s/called\n' "$tree" >build/config.status
    chmod +x build/config.status
    ./quickstart build >first # the first time that a build has a list of what it found
    rm -f called
    run ./quickstart build
    [[ "$output" != *recheck* ]]
    [ ! -e called ]
    # An optional part, and a tool of the tests, which only ./quickstart check installs.
    for part in 'prog mpicc' 'prog bats'; do
        rm -f called
        sed -i "/$part/d" build/.parts
        run ./quickstart build
        [ "$status" -eq 0 ]
        [[ "$output" == *"+ cd build && ./config.status --recheck && ./config.status"* ]]
        grep -qx 'config.status --recheck' called
        grep -q "$part" build/.parts
        run ./quickstart build
        [[ "$output" != *recheck* ]]
    done
}
