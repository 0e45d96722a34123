#!/bin/sh
# packages.sh: build-aux/packages.txt is the only list of required packages.
. "$(dirname "$0")/lib.sh"

list=$srcdir/build-aux/packages.txt
table=$(grep -v -e '^#' -e '^ *$' "$list")

report "each line has when, probe and three package names, an optional one what it adds" "$(printf '%s\n' "$table" | awk -F'|' '
    { for (i = 1; i <= NF; i++) gsub(/^ +| +$/, "", $i) }
    NF != 5 + ($1 == "optional") || $1 !~ /^(bootstrap|build|check|optional)$/ || $2 !~ /^(cc$|prog |link )/ || $3 == "" || $4 == "" || $5 == "" { print }')"

# what configure requires: module and Debian name of each MF_LIB
report "the libraries that configure insists on are the ones probed for" "$(
    sed -n 's/^MF_LIB(\[[A-Z]*\], \[\(.*\)\], \[\(.*\)\], \[.*\], \[\(.*\)\], \[\(.*\)\])$/\2 \3 \1 \4/p' "$srcdir/configure.ac" |
        while read -r header function module package; do
            printf '%s\n' "$table" | grep -qE "^build .*\\| link $header $function -l[a-z0-9]+ $module +\\| $package +\\|" ||
                echo "$package: no line \"link $header $function ... $module\""
        done
)"

debian=$(printf '%s\n' "$table" | cut -d'|' -f3 | tr -d ' ' | sort -u)
report "no other file lists packages to install" "$(cd "$srcdir" && grep -rnE 'apt(-get)? install' README* CONTRIBUTING* ARCHITECTURE* SECURITY* .ci man share 2>/dev/null |
    while IFS= read -r line; do
        for word in ${line#*install}; do
            case $word in *-dev*) printf '%s\n' "$debian" | grep -qx "$word" && echo "$line" && break ;; esac
        done
    done)"
done_testing
