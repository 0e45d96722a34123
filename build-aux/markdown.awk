# markdown.awk: the part of Markdown that the texts of this project use, as HTML: headings, paragraphs, lists, tables, code
# blocks, `code`, **bold**, links and pictures. -v pages, texts: the names of the manual pages and of the texts of the site;
# -v at: the folder of this text; -v up: the way from it to the front page. A link to a text of the site leads to its page, a
# name of a manual page, as moefw-run(5), to that page; a link to anything else becomes its words.
function escaped(s) {
    gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s)
    return s
}
function below(target) { # a/b/../c as a/c, seen from the front page
    if (at != ".") target = at "/" target
    while (match(target, /[^\/]+\/\.\.\//)) target = substr(target, 1, RSTART - 1) substr(target, RSTART + RLENGTH)
    return target
}
function linked(words, target,  text) {
    if (target ~ /^https?:/) return "<a href=\"" target "\">" words "</a>"
    text = below(target)
    if (text == "NEWS") return "<a href=\"" up "NEWS.html\">" words "</a>"
    if (index(texts, " " text " ") == 0) return words
    sub(/\.md$/, ".html", text)
    return "<a href=\"" up (text == "README.html" ? "index.html" : text) "\">" words "</a>"
}
function named(s,  out, name, page) { # moefw-run(5)
    while (match(s, /moefw[a-z.-]*\([1-9]\)/)) {
        name = page = substr(s, RSTART, RLENGTH)
        sub(/\(/, ".", page); sub(/\)/, "", page)
        out = out substr(s, 1, RSTART - 1) (index(pages, " " page " ") ? "<a href=\"" up page ".html\">" name "</a>" : name)
        s = substr(s, RSTART + RLENGTH)
    }
    return out s
}
function inline(s,  out, before, part, words) {
    while (match(s, /`[^`]+`|\*\*[^*]+\*\*|!?\[[^\]]*\]\([^)]*\)/)) {
        before = substr(s, 1, RSTART - 1)
        part = substr(s, RSTART, RLENGTH)
        s = substr(s, RSTART + RLENGTH)
        out = out named(escaped(before))
        if (part ~ /^`/) out = out "<code>" escaped(substr(part, 2, length(part) - 2)) "</code>"
        else if (part ~ /^\*/) out = out "<b>" inline(substr(part, 3, length(part) - 4)) "</b>"
        else {
            words = part; sub(/^!?\[/, "", words); sub(/\]\(.*/, "", words)
            sub(/^.*\]\(/, "", part); sub(/\)$/, "", part)
            out = out (words ~ /^Two figures/ ? "<img src=\"" up part "\" alt=\"" escaped(words) "\">" : linked(inline(words), part))
        }
    }
    return out named(escaped(s))
}
function flush_() {
    if (paragraph != "") print "<" (item ? "li" : "p") ">" inline(paragraph) "</" (item ? "li" : "p") ">"
    paragraph = ""; item = 0
}
function close_list(to) {
    flush_()
    if (list != "" && list != to) { print "</" list ">"; list = "" }
    if (to != "" && list == "") { list = to; print "<" to ">" }
}
function close_table() { if (table) { print "</table>"; table = 0 } }
/^```/ { if (!code) { close_list(""); close_table() } print code ? "</pre>" : "<pre>"; code = !code; next }
code { print escaped($0); next }
/^#+ / {
    close_list(""); close_table()
    level = length($1); sub(/^#+ /, "")
    print "<h" level ">" inline($0) "</h" level ">"
    next
}
/^\|[- |:]*$/ { next }
/^\|/ {
    close_list("")
    if (!table) { table = 1; print "<table>" }
    line = $0; sub(/^\| */, "", line); sub(/ *\|$/, "", line)
    n = split(line, cell, / *\| */)
    row = ""
    for (i = 1; i <= n; i++) row = row "<td>" inline(cell[i]) "</td>"
    if (row != "<td></td>") print "<tr>" row "</tr>"
    next
}
{ close_table() }
/^- / { close_list("ul"); item = 1; paragraph = substr($0, 3); next }
/^[0-9]+\. / { close_list("ol"); item = 1; sub(/^[0-9]+\. /, ""); paragraph = $0; next }
/^$/ { flush_(); blank = 1; next }
{
    if (paragraph == "" && list != "" && $0 !~ /^ /) close_list("")
    sub(/^ +/, "")
    paragraph = paragraph == "" ? $0 : paragraph " " $0
}
END { close_list(""); close_table() }
