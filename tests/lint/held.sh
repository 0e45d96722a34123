#!/bin/sh
# held.sh: each test that the table of faults in tests/README.md names exists. A name in quotes is the beginning
# of, or a part of, a test of the bats file before it; a plain one is a test of the check program. And each
# target of make that the texts name has a rule.
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

# TEXT TARGET: a word behind `make (no path) in a text, in a line of commands, or one with a hyphen.
targets() {
    for text in NEWS README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md tests/README.md tests/RESULTS.md; do
        {
            tr '\n' ' ' <"$srcdir/$text" | grep -oE "[\`]make [a-z][^\` /]*[\` ]|make [a-z]+-[a-z]+" | tr -d '\`'
            grep -oE '^make [a-z][^ ]*' "$srcdir/$text"
        } | sed "s,.*make ,$text ,; s, *\$,,"
    done | sort -u
}

report "each target of make that the texts name has a rule" "$(
    [ "$(targets | wc -l)" -gt 10 ] || echo "found $(targets | wc -l)"
    targets | while read -r text target; do
        grep -q "^$target *:" "$builddir/Makefile" "$srcdir/share/template/Makefile.in" "$srcdir/share/template/Makefile_cuda.in" ||
            echo "$text: make $target has no rule"
    done
)"
done_testing
