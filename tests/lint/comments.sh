#!/bin/sh
# comments.sh: the form of comments in C. Each file opens with one that tells its job, and wrapping
# left no stray star inside a sentence and no line of one word.
. "$(dirname "$0")/lib.sh"

scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
sources core lib tools kernels plugins include share tests bench -- '*.[ch]' '*.def' |
    grep -v '^tests/plugins/abi01/' >"$scratch/files" # headers of a release stay as they were
(cd "$srcdir" && xargs awk -f tests/lint/comments.awk <"$scratch/files") >"$scratch/comments"

report "there are files to look at" "$([ -s "$scratch/files" ] || echo "no file found")"

# Behind code a star between two plain words is stray unless the comment holds a formula; elsewhere
# it is stray beside a word that no formula has.
report "no stray star inside a sentence" "$(awk -F '\t' '
    BEGIN {
        n = split("and or the of to in than then not with as at be is for else all which that et by on al " \
            "its it from so because when where if an", w, " ")
        for (i = 1; i <= n; i++) plain[w[i]] = 1
    }
    {
        text = $5
        while (match(text, /[^ ]+ \* [^ ]+/)) {
            split(substr(text, RSTART, RLENGTH), part, " ")
            before = part[1]; after = part[3]
            words = before ~ /^[a-z]+$/ && after ~ /^[a-z]+[,;.:]?$/ && $4 == "behind" && $5 !~ /=/
            sub(/[,;.:]$/, "", before); sub(/[,;.:]$/, "", after)
            if (before in plain || after in plain || words) { print $1 ":" $2 ": " $5; break }
            text = substr(text, RSTART + 1)
        }
    }' "$scratch/comments")"

# A line of one word that ends with a colon, or follows one, belongs to a list.
report "no line of one word in a longer comment" "$(awk -F '\t' '
    $3 > 1 && last !~ /:$/ && $5 ~ /^[A-Za-z][a-z'\''-]*[.,;)]*$/ { print $1 ":" $2 ": " $5 }
    { last = $5 }' "$scratch/comments")"

awk -F '\t' '$4 == "first" && $3 == 1 { n[$1]++ }
    $4 == "first" && n[$1] == 1 { lines[$1]++; if ($5 == "" || $5 ~ /[={]|\(.*,.*\)/) formula[$1] = 1 }
    END { for (f in lines) print f, lines[f], formula[f] + 0 }' "$scratch/comments" | sort >"$scratch/openings"
report "each file opens with a comment" "$(cut -d ' ' -f 1 "$scratch/openings" |
    comm -13 - "$scratch/files")"
report "each .c file of the program opens with 2 to 6 lines, 14 with formulas or paragraphs, plugins with more" "$(awk '
    $1 ~ /^(core|lib|tools|kernels|plugins|tests\/lib|tests\/fuzz)\/.*\.c$/ && ($2 < 2 || $2 > ($1 ~ /^plugins/ ? 40 : $3 ? 14 : 6)) {
        print $1 ": " $2 " lines"
    }' "$scratch/openings")"
done_testing
