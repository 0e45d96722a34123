#!/bin/sh
# format.sh [FILE...]: formats C files (default: all) as .clang-format says. The result depends on
# the version of clang-format, so this needs version 14.
cd "$(dirname "$0")/.." || exit 1
for format in clang-format-14 clang-format; do
    "$format" --version 2>/dev/null | grep -q 'version 14\.' || continue
    if [ $# -eq 0 ]; then
        find core lib tools kernels plugins include share tests -name '*.[ch]' -exec "$format" -i {} +
    else
        "$format" -i "$@"
    fi
    exit
done
echo "format.sh: no clang-format of version 14 (package: clang-format-14)" >&2
exit 6
