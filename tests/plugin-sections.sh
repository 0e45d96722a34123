#!/bin/sh
# plugin-sections.sh FOLDER: prints a manual section for each plugin of plugins/FOLDER: the opening
# comment of its source (formula, source, parameters), then its table of options. MOEFW is the
# program to ask (default build/moefw).
cd "$(dirname "$0")/.." || exit 1
moefw=${MOEFW:-build/moefw}

for source in plugins/"$1"/*.c; do
    name=$(basename "$source" .c)
    # The comment without its frame. Lines indented by four blanks or more are shown as they are.
    sed -n '1,/\*\//p' "$source" | sed -e 's,^/\* ,,' -e 's,^ \*/$,,' -e 's, \*/$,,' -e 's,^ \* \{0\,1\},,' |
        awk -v name="$name" '
        function escape(s) {
            gsub(/\\/, "\\e", s); gsub(/\^/, "\\(ha", s); gsub(/~/, "\\(ti", s)
            if (s ~ /^[.\047]/) s = "\\\\&" s
            return s
        }
        function shown() { if (literal) { print ".Ed"; literal = 0 } }
        NR == 1 { sub("^" name ": *", ""); head = $0; if (head !~ /\.$/) { more = 1; next } }
        more { head = head " " $0; if (head ~ /\.$/) more = 0; else next }
        !told && NR >= 1 && !more { sub(/\.$/, "", head); told = 1
            brief = head; rest = ""
            if (match(head, / \(/)) { brief = substr(head, 1, RSTART - 1); rest = substr(head, RSTART + 1) }
            print ".Ss " name ": " escape(brief); if (rest != "") print escape(rest) "."; fresh = rest == ""
            next }
        /^ *$/ { blank = 1; next }
        /^    / { if (!literal) { print ".Bd -literal -offset indent"; literal = 1 } else if (blank) print ""
            blank = 0; sub(/^    /, ""); print escape($0); next }
        { shown(); if (blank && !fresh) print ".Pp"; blank = fresh = 0
            while (match($0, /[.;:] [A-Z]/)) { # one sentence per line
                print escape(substr($0, 1, RSTART)); $0 = substr($0, RSTART + 2) }
            print escape($0) }
        END { shown() }'
    "$moefw" plugin mdoc "$1/$name.so" || exit 1
done
