# comments.awk: the comments of C files, one line of a comment a line of output:
#   FILE <tab> LINE <tab> NUMBER <tab> PLACE <tab> TEXT
# NUMBER counts the lines of one comment from 1; PLACE is "first" for a comment with which the file
# begins, "own" for one that begins a line, "behind" for one that follows code. TEXT lacks the
# marks and the star at the beginning of a line.
function out(text) {
    if (number > 1) sub(/^[ \t]*\*[ \t]?/, "", text)
    sub(/[ \t]+$/, "", text)
    sub(/^[ \t]+/, "", text)
    print FILENAME "\t" FNR "\t" number "\t" place "\t" text
    number++
}
FNR == 1 { inside = 0; code = 0 }
{
    line = $0
    before = ""
    if (inside && line == "") out("")
    while (line != "") {
        if (inside) {
            at = index(line, "*/")
            if (at == 0) { out(line); line = ""; next }
            out(substr(line, 1, at - 1))
            line = substr(line, at + 2)
            inside = 0
            continue
        }
        # The first of: a comment, a string, a character.
        if (!match(line, /\/\*|\/\/|"|'/)) { before = before line; line = ""; break }
        before = before substr(line, 1, RSTART - 1)
        mark = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        if (mark == "\"" || mark == "'") {
            while (line != "") {
                c = substr(line, 1, 1)
                line = substr(line, c == "\\" ? 3 : 2)
                if (c == mark) break
            }
            before = before mark mark
            continue
        }
        place = before ~ /[^ \t]/ ? "behind" : code ? "own" : "first"
        number = 1
        if (mark == "//") { out(line); line = ""; break }
        inside = 1
    }
    if (before ~ /[^ \t]/) code = 1
}
