#!/bin/sh
# size.sh: a file has one job, so none has over 700 lines. Lines of C have at most 96 columns;
# clang-format does not break comments and strings, so this lint checks them.
. "$(dirname "$0")/lib.sh"

sizes=$(all_sources '*.[ch]' '*.cc' '*.hh' '*.def' '*.cu' '*.cuh' '*.sh' '*.bats' '*.mk' '*.m4' '*.py' configure.ac Makefile.am quickstart |
    while read -r file; do
    echo "$(wc -l <"$srcdir/$file") $file"
done | sort -n)

report "no file is over 700 lines" "$(echo "$sizes" | awk '$1 > 700 { print $2 ": " $1 " lines" }')"
# A character of UTF-8 is one column, however many bytes continue it.
report "no line of C is over 96 columns" "$(all_sources '*.[ch]' '*.cc' '*.hh' '*.def' '*.cu' '*.cuh' | while read -r file; do
    awk -v name="$file" '{ gsub(/[\200-\277]/, "") } length > 96 { print name ":" FNR ": " length " columns" }' "$srcdir/$file"
done)"
echo "$sizes" | awk '{ n[NR] = $1 } END { printf "# %d files, median %d lines, largest %d\n", NR, n[int((NR + 1) / 2)], n[NR] }'
done_testing
