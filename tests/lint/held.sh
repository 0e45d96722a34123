#!/bin/sh
# held.sh: each test that the table of faults in tests/README.md names exists. A name in quotes is the beginning
# of, or a part of, a test of the bats file before it; a plain one is a test of the check program.
. "$(dirname "$0")/lib.sh"

# KIND FILE NAME: the tests of the table, a line each; NAME is missing where the file stands alone
named() {
    sed -n '/^## What holds/,$p' "$srcdir/tests/README.md" | grep '^|.*`' | sed 's/[|;]/\n/g' |
        awk '{
            while (match($0, /`[^`]*`|"[^"]*"/)) {
                rest = substr($0, RSTART + RLENGTH)
                word = substr($0, RSTART + 1, RLENGTH - 2)
                if (substr($0, RSTART, 1) == "\"") print "bats\t" file "\t" word
                else {
                    file = word
                    print "file\t" file
                    if (file ~ /^check_/ && substr(rest, 1, 1) == ":") {
                        n = split(substr(rest, 2), names, /,/)
                        for (i = 1; i <= n; i++) {
                            sub(/^ */, "", names[i])
                            sub(/ .*/, "", names[i])
                            if (names[i] != "") print "unit\t" file "\t" names[i]
                        }
                    }
                }
                $0 = rest
            }
        }'
}

# path of what the table calls a file
where() {
    case $1 in
    check_*) find "$srcdir/tests/unit" -name "$1.c" ;;
    *.bats) find "$srcdir/tests/cli/$1" "$srcdir/tests/$1" 2>/dev/null ;;
    tests/*) find "$srcdir/${1%% *}" -prune 2>/dev/null ;;
    *) echo / ;; # a word, a variable
    esac
}

report "the table names tests" "$([ "$(named | grep -c '^unit')" -gt 20 ] || echo "found $(named | wc -l)")"
report "each test of the table of faults exists" "$(
    named | while IFS='	' read -r kind file name; do
        path=$(where "$file")
        if [ -z "$path" ]; then
            echo "no file of tests: $file"
        elif [ "$kind" = unit ]; then
            grep -q "START_TEST($name)" "$path" || echo "$file has no test $name"
        elif [ "$kind" = bats ]; then
            grep '^@test ' "$path" | grep -qF "$name" || echo "$file has no test \"$name\""
        fi
    done
)"
done_testing
