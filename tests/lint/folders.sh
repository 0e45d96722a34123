#!/bin/sh
# folders.sh: a folder holds what one look takes in: at most 30 files. Seeds of fuzz targets, recorded
# results and a release's headers are data and do not count; a folder of plugins has one file for each.
. "$(dirname "$0")/lib.sh"

# Folders that are still being divided.
pending=''

folders=$(sources core lib tools kernels plugins include etc share man tests bench -- '*' |
    grep -vE '^tests/(plugins/abi01|bits|fuzz/corpus|golden)/|^bench/results/|^plugins/[a-z]+/' | sed 's,/[^/]*$,,' | sort | uniq -c)
report "there are folders to look at" "$([ -n "$folders" ] || echo "no folder found")"
report "no folder holds over 30 files" "$(echo "$folders" | awk -v pending="$pending" '
    $1 > 30 && index(" " pending " ", " " $2 " ") == 0 { print $2 ": " $1 " files" }')"
report "every pending folder exists" "$(for place in $pending; do [ -d "$srcdir/$place" ] || echo "$place"; done)"
done_testing
