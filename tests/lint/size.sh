#!/bin/sh
# size.sh: a file does one job: none is over 700 lines.
. "$(dirname "$0")/lib.sh"

sizes=$(all_sources '*.[ch]' '*.def' '*.cu' '*.cuh' '*.sh' '*.bats' '*.mk' '*.m4' '*.py' configure.ac Makefile.am quickstart |
    while read -r file; do
    echo "$(wc -l <"$srcdir/$file") $file"
done | sort -n)

report "no file is over 700 lines" "$(echo "$sizes" | awk '$1 > 700 { print $2 ": " $1 " lines" }')"
echo "$sizes" | awk '{ n[NR] = $1 } END { printf "# %d files, median %d lines, largest %d\n", NR, n[int((NR + 1) / 2)], n[NR] }'
done_testing
