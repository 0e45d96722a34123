#!/bin/sh
# layout.sh INCLUDE [INCLUDE]...: prints the layout of the plugin ABI as the headers in these folders
# declare it and $CC lays it out: one line for each struct (size), field (offset, size, declaration)
# and constant (value). The headers' style is taken for granted: one declaration ends with ';'.
[ $# -ge 1 ] || { echo "usage: layout.sh INCLUDE [INCLUDE]..." >&2; exit 2; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
folders=
for folder; do folders="$folders -I$folder"; done
for name in status types op adapter host routing plugin; do
    cat "$1/moefw/$name.h" || exit 1
done >"$work/all.h"

awk '
function constant(name)
{
    if (name ~ /^MF_[A-Z0-9_]+$/ && !(name in seen)) {
        seen[name] = 1
        printf "    printf(\"const %s %%lld\\n\", (long long)(%s));\n", name, name
    }
}
# All declarators of one declaration in struct S.
function declaration(text,   n, i, part, name, type)
{
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    if (text == "") return
    if (match(text, /\(\*[a-z_0-9]+\)/)) {
        field(substr(text, RSTART + 2, RLENGTH - 3), text)
        return
    }
    n = split(text, part, ",")
    for (i = 1; i <= n; i++) {
        name = part[i]
        sub(/\[.*/, "", name)
        match(name, /[A-Za-z_0-9]+ *$/)
        name = substr(name, RSTART)
        gsub(/ /, "", name)
        if (i == 1) {
            type = part[1]
            sub(/\**[A-Za-z_0-9]+(\[[^]]*\])* *$/, "", type)
            sub(/ $/, "", type)
        }
        sub(/^ /, "", part[i])
        field(name, i == 1 ? part[1] : type " " part[i])
    }
}
function field(name, text)
{
    gsub(/"/, "\\\"", text)
    printf "    printf(\"field %s.%s %%zu %%zu %s\\n\", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n", \
        S, name, text, S, name, S, name
}
BEGIN { print "#include <moefw/moefw.h>\n#include <stdio.h>\nint main(void)\n{" }
{
    while (match($0, /\/\*.*\*\//)) $0 = substr($0, 1, RSTART - 1) substr($0, RSTART + RLENGTH)
    if (comment) {
        if (!match($0, /\*\//)) next
        $0 = substr($0, RSTART + 2)
        comment = 0
    }
    if (match($0, /\/\*/)) { $0 = substr($0, 1, RSTART - 1); comment = 1 }
}
/^ *X\(MF_/ { name = $0; sub(/^ *X\(/, "", name); sub(/,.*/, "", name); constant(name); next }
/^#define MF_[A-Z0-9_]+ +[(]?[-0-9]/ { constant($2); next }
/^#define MF_[A-Z0-9_]+ +[(]MF_/ { constant($2); next }
/^#/ { next }
/^typedef enum / { enum = 1 }
enum {
    text = $0
    if (/MF_STATUS_/) next # made by the list of statuses, whose lines are read above
    while (match(text, /MF_[A-Z0-9_]+/)) {
        constant(substr(text, RSTART, RLENGTH))
        text = substr(text, RSTART + RLENGTH)
    }
    if (/}/) enum = 0
    next
}
/^typedef struct mf_[a-z_]+ \{/ { S = $3; D = ""; printf "    printf(\"size %s %%zu\\n\", sizeof(%s));\n", S, S; next }
S != "" && /^}/ { S = ""; next }
S != "" {
    D = D " " $0
    # nested braces end no declaration (none of these structs has any)
    while ((at = index(D, ";")) > 0) { declaration(substr(D, 1, at - 1)); D = substr(D, at + 1) }
}
END { print "    return 0;\n}" }
' "$work/all.h" >"$work/layout.c" || exit 1
# shellcheck disable=SC2086
${CC:-cc} -std=c11 $folders -o "$work/layout" "$work/layout.c" >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
"$work/layout"
