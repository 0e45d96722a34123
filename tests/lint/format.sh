#!/bin/sh
# format.sh: the layout of C files is that of .clang-format, where clang-format of its version is installed.
. "$(dirname "$0")/lib.sh"
found=$(sh "$srcdir/tests/format.sh" -n 2>&1)
if [ $? -eq 6 ]; then
    skip "files are formatted" "no clang-format of version 14"
else
    report "files are formatted (sh tests/format.sh)" "$(printf '%s\n' "$found" | sed -n "s,^\(.*: error: .*\) \[-W.*,\1,p")"
fi
done_testing
