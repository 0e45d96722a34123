#!/bin/sh
# chroot.sh [--release NAME] [--jobs N] DIR: builds with -Werror and runs the suite in a bare Debian
# (trixie), which debootstrap makes in DIR, with the packages of build-aux/packages.txt and no others.
# DIR is used again if it is there. Needs root, debootstrap, git and a network. The sources are those of
# the last commit. The last line is the counts of the suite; the exit status is 1 if a test failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
release=trixie jobs=2
while [ $# -gt 1 ]; do
    case $1 in
    --release) release=$2 ;;
    --jobs) jobs=$2 ;;
    *) echo "chroot.sh: unknown '$1' (expected --release or --jobs)" >&2; exit 2 ;;
    esac
    shift 2
done
case ${1:-} in
-h | --help) sed -n '2,5s/^# //p' "$0"; exit 0 ;;
/*) root=$1 ;;
*) echo "chroot.sh: expected an absolute path for the system, found '${1:-}'" >&2; exit 2 ;;
esac
for program in debootstrap chroot git; do
    command -v "$program" >/dev/null || { echo "chroot.sh: needs $program" >&2; exit 6; }
done
[ "$(id -u)" = 0 ] || { echo "chroot.sh: needs root, for chroot" >&2; exit 6; }
[ -x "$root/bin/sh" ] || debootstrap --variant=minbase "$release" "$root" || exit 1

packages=$(awk -F'|' '!/^#/ && NF >= 4 { print $3 }' "$source/build-aux/packages.txt" | sort -u | tr -d '\n')
rm -rf "$root/src/moefw"
mkdir -p "$root/src/moefw"
git -C "$source" archive HEAD | tar -x -C "$root/src/moefw" || exit 1
# $ORIGIN needs /proc, and tests on a terminal need /dev/pts.
mount -t proc proc "$root/proc" && mount --bind /dev/pts "$root/dev/pts" || exit 1
trap 'umount "$root/proc" "$root/dev/pts"' EXIT
# shellcheck disable=SC2016
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
    packages="$packages" jobs="$jobs" MOEFW_CHECK_SECONDS=3600 sh -c '
    apt-get -q update && apt-get -q -y install --no-install-recommends $packages || exit 1
    cd /src/moefw && autoreconf -i && mkdir -p build && cd build && ../configure -q --enable-werror || exit 1
    make -s -k -j"$jobs" || exit 1
    make -s -k -j"$jobs" check >check.log 2>&1
    status=$?
    sh ../tests/counts.sh check.log || exit 1
    exit $status'
