# make install: which files go where, and that the program works there.

setup_file() {
    export STAGE="$BATS_FILE_TMPDIR/stage"
    make -C "$builddir" install DESTDIR="$STAGE" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        cat "$BATS_FILE_TMPDIR/log"
        return 1
    }
    value() { sed -n "s/^$1 = //p" "$builddir/Makefile"; }
    PREFIX=$(value prefix)
    export PREFIX
}

pc() {
    PKG_CONFIG_SYSROOT_DIR="$STAGE" PKG_CONFIG_LIBDIR="$(dirname "$(find "$STAGE" -name moefw.pc)")" pkg-config "$@" moefw
}

@test "configure finds its sources from a build folder that a symbolic link names" {
    [ -f "$srcdir/configure" ] || skip "no configure"
    mkdir -p "$BATS_TEST_TMPDIR"/{real/build,other}
    ln -s ../real/build "$BATS_TEST_TMPDIR/other/build"
    cd "$BATS_TEST_TMPDIR/other/build"
    srcdir=.. bash -c "$(grep '^source_folder=' "$srcdir/configure"); echo \$source_folder" >found
    [ "$(cat found)" = "$(cd -P "$BATS_TEST_TMPDIR/real" && pwd -P)" ]
}

@test "objects for another set of instruction sets do not stay" {
    mkdir -p "$BATS_TEST_TMPDIR/b/kernels" && cd "$BATS_TEST_TMPDIR/b"
    cp "$builddir/config.status" .
    ./config.status flags
    touch kernels/table.o
    ./config.status flags
    [ -e kernels/table.o ]
    sed -i 's/generic/generic odd/' .flags
    ./config.status flags
    [ ! -e kernels/table.o ]
}

@test "the staged program runs" {
    run "$STAGE$PREFIX/bin/moefw" --version
    [ "$status" -eq 0 ]
    [[ "$output" == "moefw "* ]]
}

@test "every plugin that was built is installed, as a real object, in the folder moefw.pc names" {
    dir=$(pc --variable=plugindir)
    for so in "$builddir"/plugins/*/*.so; do
        cmp "$so" "$STAGE${dir#"$STAGE"}/${so#"$builddir"/plugins/}"
    done
}

@test "every public header is installed" {
    for header in "$srcdir"/include/moefw/*.h "$builddir/include/moefw/version.h"; do
        cmp "$header" "$STAGE$PREFIX/include/moefw/$(basename "$header")"
    done
}

@test "presets, templates, settings and drop-ins are installed" {
    for folder in presets template; do
        [ -d "$srcdir/share/$folder" ] || continue
        diff -r "$srcdir/share/$folder" "$STAGE$PREFIX/share/moefw/$folder"
    done
    settings=$(pc --variable=pkgsysconfdir)
    [ ! -d "$srcdir/etc/plugins.d" ] || diff -r "$srcdir/etc/plugins.d" "$STAGE${settings#"$STAGE"}/plugins.d"
    [ ! -f "$srcdir/etc/moefw.ini" ] || cmp "$srcdir/etc/moefw.ini" "$STAGE${settings#"$STAGE"}/moefw.ini"
}

@test "moefw.pc has all flags for plugins and none that changes arithmetic" {
    cflags=$(pc --cflags)
    [[ "$cflags" == *"-I$STAGE$PREFIX/include"* ]]
    [[ "$cflags" == *-fPIC* ]]
    [[ "$cflags" == *-fvisibility=hidden* ]]
    for flag in $cflags; do # one by one: the name of the stage is random, and may begin with O
        case $flag in -O* | -m* | -f*fast* | -f*math*) echo "$flag" && return 1 ;; esac
    done
    [ "$(pc --variable=abi)" = "$(sed -n 's/^#define MF_ABI \([0-9]*\)u.*/\1/p' "$srcdir/include/moefw/plugin.h")" ]
}

@test "a plugin of the tree builds against the installed headers alone" {
    # The variables hold lists of flags.
    # shellcheck disable=SC2046,SC2086
    $CC -std=c11 $(pc --cflags) -shared -Wl,-z,defs -o "$BATS_TEST_TMPDIR/linear.so" "$srcdir/plugins/routers/linear.c" -lm
    nm -D --defined-only "$BATS_TEST_TMPDIR/linear.so" | grep -q ' moefw_plugin$'
}

@test "completions are installed and bash accepts its own" {
    bash -n "$STAGE$PREFIX/share/bash-completion/completions/moefw"
    grep -q '^#compdef moefw' "$STAGE$PREFIX/share/zsh/site-functions/_moefw"
    grep -q 'complete -c moefw' "$STAGE$PREFIX/share/fish/vendor_completions.d/moefw.fish"
}

# again VERB: make VERB once more, with the same stage
again() { make -C "$builddir" "$1" DESTDIR="$STAGE" 2>&1; }

@test "each installed file is in a package of debian/" {
    (cd "$srcdir/debian" && cat ./*.install ./*.manpages ./*.docs ./*.examples not-installed) |
        sed 's|^debian/tmp/||' | sort >"$BATS_TEST_TMPDIR/packed"
    [ -z "$(uniq -d "$BATS_TEST_TMPDIR/packed" | grep -v '^usr/share/moefw/examples')" ]
    # The licence is in debian/copyright. Packages have the prefix /usr and a folder for the architecture.
    (cd "$STAGE" && find . -type f -o -type l) |
        sed -E "s|^\./||; s|^${PREFIX#/}/etc/|etc/|; s|^${PREFIX#/}/|usr/|; s|^usr/lib/|usr/lib/architecture/|" | grep -v '/LICENSE$' |
        while read -r file; do
            while read -r pattern; do
                # shellcheck disable=SC2254 # lines are patterns
                case $file in $pattern | $pattern/*) continue 2 ;; esac
            done <"$BATS_TEST_TMPDIR/packed"
            echo "$file is in no package"
            exit 1
        done
}

@test "edited settings are kept, others are updated" {
    settings=$(pc --variable=pkgsysconfdir)
    ini=$STAGE${settings#"$STAGE"}/moefw.ini
    dist=$STAGE$PREFIX/share/moefw/moefw.ini
    [ "$(ls "$(dirname "$ini")")" = moefw.ini ] # one file, without copies beside it
    cmp "$ini" "$dist"
    echo "; ours" >>"$ini"
    cp "$ini" "$BATS_TEST_TMPDIR/ours"
    run again install-data-local
    [ "$status" -eq 0 ]
    [[ "$output" == *"kept: $ini, which was edited; this version's is $dist"* ]]
    cmp "$ini" "$BATS_TEST_TMPDIR/ours"
    cmp "$srcdir/etc/moefw.ini" "$dist"
    # a file of another version that nobody has edited is updated
    echo "; of another version" >"$ini"
    cp "$ini" "$dist"
    run again install-data-local
    [[ "$output" != *kept* ]]
    cmp "$srcdir/etc/moefw.ini" "$ini"
    # an edited file is kept by uninstall
    echo "; ours" >>"$ini"
    run again uninstall-settings
    [[ "$output" == *"kept: $ini, which was edited"* ]]
    [ -e "$ini" ]
    [ ! -e "$dist" ]
    rm "$ini"
    again install-data-local
    cmp "$srcdir/etc/moefw.ini" "$ini"
}

@test "uninstall leaves no file" {
    make -C "$builddir" uninstall DESTDIR="$STAGE" >/dev/null
    run find "$STAGE" -type f
    [ -z "$output" ]
}
