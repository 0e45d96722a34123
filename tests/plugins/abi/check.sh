#!/bin/sh
# check.sh RECORD LAYOUT: prints each change of the plugin ABI that is no append, and each line that
# is not recorded yet; exit 1 if there is any. A plugin that was built with the recorded headers
# works with the new ones if nothing of the first kind is printed.
awk -v record="$1" '
# A struct that tells its size can grow at its end; MF_HAS and the strides in the descriptor guard that.
function may_grow(s) { return ("mf_option" == s) || ((s ".size") in field) || s == "mf_plugin" }
function bad(text) { print text; failed = 1 }
FILENAME == record {
    if ($1 == "size") size[$2] = $3
    if ($1 == "field") field[$2] = $0
    if ($1 == "const") value[$2] = $3
    next
}
{
    now[$1, $2] = $0
    split($2, part, ".")
    if ($1 == "size" && ($2 in size) && $3 != size[$2] && !($3 > size[$2] && may_grow($2)))
        bad("changed: " $2 " has " $3 " bytes, " size[$2] " are recorded" (may_grow($2) ? "" : ", and it cannot grow"))
    if ($1 == "field" && ($2 in field) && field[$2] != $0) bad("changed: " field[$2] "\n     to: " $0)
    if ($1 == "field" && !($2 in field) && (part[1] in size) && $3 < size[part[1]])
        bad("inserted: " $0 ", within the recorded " size[part[1]] " bytes")
    if ($1 == "const" && ($2 in value) && value[$2] != $3 && $2 != "MF_AT_POINTS")
        bad("changed: " $2 " is " $3 ", recorded is " value[$2])
    known = $1 == "size" ? size[$2] == $3 : $1 == "field" ? ($2 in field) : value[$2] == $3 && ($2 in value)
    if (!known) fresh = fresh "not recorded: " $0 "\n"
}
END {
    for (s in size) if (!(("size", s) in now)) bad("removed: " s)
    for (f in field) if (!(("field", f) in now)) bad("removed: " field[f])
    for (c in value) if (!(("const", c) in now)) bad("removed: " c)
    if (!failed && fresh != "") { printf "%s", fresh; failed = 1 }
    exit failed
}' "$1" "$2"
