#!/bin/sh
# musl.sh [--releases "NAME NAME"] [--jobs N] DIR: builds moefw and its libraries with musl in place of the
# system's C library, and runs the suite. The libraries are built in DIR from the sources of Debian, each
# from the first of the releases (trixie bookworm) where it can be fetched. Needs
# apt-get, dpkg-source, musl-gcc (musl-tools), git and a network. The sources of moefw are those of the
# last commit. The last line is the counts of the suite; the exit status is 1 if a test failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
releases='trixie bookworm' jobs=2
while [ $# -gt 1 ]; do
    case $1 in
    --releases) releases=$2 ;;
    --jobs) jobs=$2 ;;
    *) echo "musl.sh: unknown '$1' (expected --releases or --jobs)" >&2; exit 2 ;;
    esac
    shift 2
done
case ${1:-} in
-h | --help) sed -n '2,6s/^# //p' "$0"; exit 0 ;;
/*) root=$1 ;;
*) echo "musl.sh: expected an absolute path for the libraries, found '${1:-}'" >&2; exit 2 ;;
esac
for program in apt-get dpkg-source musl-gcc git; do
    command -v "$program" >/dev/null || { echo "musl.sh: needs $program" >&2; exit 6; }
done
prefix=$root/prefix
mkdir -p "$root/src" "$prefix/lib/pkgconfig" "$prefix/include" || exit 1

# library NAME VERSION SOURCE...: a shared library of some files, and its .pc
library() {
    name=$1 version=$2 so=lib${1#lib}.so
    shift 2
    musl-gcc -O2 -fPIC -shared -I"$prefix/include" -Wl,-soname,"$so.0" -o "$prefix/lib/$so.0" "$@" -lm || exit 1
    ln -sf "$so.0" "$prefix/lib/$so"
    printf 'Name: %s\nDescription: %s\nVersion: %s\nLibs: -L%s -l%s\nCflags: -I%s\n' "$name" "$name" "$version" \
        "$prefix/lib" "${name#lib}" "$prefix/include" >"$prefix/lib/pkgconfig/$name.pc"
}

# folder NAME: where apt-get source has put it
folder() {
    set -- "$root/src/$1"-*/
    echo "${1%/}"
}

# version FOLDER
version() {
    echo "${1##*-}"
}

# source_of RELEASE ARGUMENT...: apt-get, with the sources of that release alone
source_of() {
    list=$root/$1.list lists=$root/lists-$1
    shift
    apt-get -q -o "Dir::Etc::SourceList=$list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$lists" "$@"
}

libraries() {
    for release in $releases; do
        echo "deb-src http://deb.debian.org/debian $release main" >"$root/$release.list"
        mkdir -p "$root/lists-$release"
        source_of "$release" update || exit 1
    done
    for package in libinih jansson utf8proc xxhash check openblas; do
        [ ! -d "$(folder "$package")" ] || continue
        for release in $releases; do
            ! (cd "$root/src" && source_of "$release" --only-source source "$package") || break
        done
        [ -d "$(folder "$package")" ] || exit 1
    done
    jansson=$(folder jansson) inih=$(folder libinih) utf8proc=$(folder utf8proc) xxhash=$(folder xxhash)
    check=$(folder check) blas=$(folder openblas)
    for folder in "$jansson" "$check"; do
        [ -x "$folder/configure" ] || (cd "$folder" && autoreconf -i) || exit 1
    done
    (cd "$jansson" && ./configure -q CC=musl-gcc) || exit 1
    cp "$inih/ini.h" "$jansson"/src/jansson*.h "$utf8proc/utf8proc.h" "$xxhash"/xxh*.h "$prefix/include" || exit 1
    library inih "$(version "$inih")" "$inih/ini.c"
    library jansson "$(version "$jansson")" -DHAVE_CONFIG_H -I"$jansson" -I"$jansson/src" "$jansson"/src/*.c
    library libutf8proc "$(version "$utf8proc")" "$utf8proc/utf8proc.c"
    library libxxhash "$(version "$xxhash")" "$xxhash/xxhash.c"
    (mkdir -p "$check/build" && cd "$check/build" &&
        ../configure -q CC=musl-gcc --disable-subunit --disable-shared --with-pic && make -s -C lib && make -s -C src) || exit 1
    cp "$check/build/src/.libs/libcheck.a" "$check/build/lib/.libs/libcompat.a" "$prefix/lib" || exit 1
    cp "$check/build/src/check.h" "$check"/check_stdint.h "$prefix/include" 2>/dev/null || cp "$check/src/check.h" "$prefix/include" || exit 1
    printf 'Name: check\nDescription: check\nVersion: %s\nLibs: -L%s -lcheck -lcompat -lpthread -lm\nCflags: -I%s\n' \
        "$(version "$check")" "$prefix/lib" "$prefix/include" >"$prefix/lib/pkgconfig/check.pc"
    # Only BLAS, for any x86: the program opens it for the gemms of one test and of --version.
    for target in libs install; do
        make -s -C "$blas" -j"$jobs" CC=musl-gcc HOSTCC=cc TARGET=GENERIC NOFORTRAN=1 NO_LAPACK=1 NO_LAPACKE=1 USE_THREAD=0 \
            NO_SHARED=1 PREFIX="$prefix" "$target" || exit 1
    done >"$root/blas.log" 2>&1
    library openblas "$(version "$blas")" -Wl,--whole-archive "$blas"/libopenblas_*.a -Wl,--no-whole-archive
    touch "$root/done"
}

[ -f "$root/done" ] || libraries
rm -rf "$root/moefw"
mkdir -p "$root/moefw"
git -C "$source" archive HEAD | tar -x -C "$root/moefw" || exit 1
# Threads of musl have 128 KiB of stack if the program does not ask for more. The command asks by itself.
# There is no C++ compiler for musl, so that tests of the CUDA emulator are skipped.
export CXX=musl-g++ PKG_CONFIG_LIBDIR="$prefix/lib/pkgconfig" MOEFW_CHECK_SECONDS=3600
cd "$root/moefw" && autoreconf -i && mkdir -p build && cd build &&
    ../configure -q --enable-werror CC=musl-gcc CPPFLAGS="-I$prefix/include" \
        LDFLAGS="-L$prefix/lib -Wl,-rpath,$prefix/lib -Wl,-z,stack-size=4194304" \
        --with-cuda=no --with-mpi=no || exit 1
make -s -k -j"$jobs" || exit 1
make -s -k -j"$jobs" check >check.log 2>&1
status=$?
sh ../tests/counts.sh check.log || exit 1
exit "$status"
