#!/bin/sh
# dist.sh: every file of the repository goes into the release tarball.
. "$(dirname "$0")/lib.sh"

top=$(git -C "$srcdir" rev-parse --show-toplevel 2>/dev/null) || skip_all "no git, or not a repository"
[ "$top" = "$(cd "$srcdir" && pwd -P)" ] || skip_all "not the top of a repository"
scratch=$(mktemp -d) || exit 1
trap 'chmod -R u+w "$scratch"; rm -rf "$scratch"' EXIT

report "the tarball can be made" "$(make -s -C "$builddir" distdir distdir="$scratch/tree" >"$scratch/log" 2>&1 || tail "$scratch/log")"
report "it holds every file of the repository" "$(git -C "$srcdir" ls-files |
    grep -vxE '\.git(attributes|ignore)' | while read -r file; do
    [ -e "$scratch/tree/$file" ] || [ ! -e "$srcdir/$file" ] || echo "$file"
done)"
done_testing
