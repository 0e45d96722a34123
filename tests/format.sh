#!/bin/sh
# format.sh [-n] [FILE...]: formats C files (default: all) as .clang-format says; -n prints what would
# change instead, and its status is 1 then. The result depends on the version of clang-format, so this
# needs version 14.
check=
[ "${1:-}" = -n ] && check='--dry-run -Werror' && shift
cd "$(dirname "$0")/.." || exit 1
for format in clang-format-14 clang-format; do
    "$format" --version 2>/dev/null | grep -q 'version 14\.' || continue
    # abi01 has headers as they were released.
    # shellcheck disable=SC2046
    [ $# -gt 0 ] || set -- $(find core lib tools kernels plugins include share tests -name '*.[ch]' ! -path '*/abi01/*')
    # shellcheck disable=SC2086
    "$format" ${check:--i} "$@"
    exit
done
echo "format.sh: no clang-format of version 14 (package: clang-format-14)" >&2
exit 6
