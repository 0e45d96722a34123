# commands.awk: prints the commands of a document, one a line, as they stand there.
#   -v form=readme    code blocks of README.md, but not those of ```text, which show what commands print
#   -v form=shown     these: what stands before the first number of each line
#   -v form=examples  literal displays of the section EXAMPLES of a manual page
#   -v form=synopsis  the section SYNOPSIS of a manual page, without its marks: moefw eval RUN|CHECKPOINT
#   -v form=indented  lines indented by four blanks, without what stands apart at their right
# A comment is what follows '# ' or '// '. Three blanks or more separate commands of one line.
function put(line, n, part, i) {
    sub(/(^|[ \t]+)(#|\/\/) .*$/, "", line)
    n = split(line, part, /   +/)
    for (i = 1; i <= n; i++) {
        gsub(/^ +| +$/, "", part[i])
        if (part[i] != "") print part[i]
    }
}
form == "readme" || form == "shown" {
    if (/^```/) { inside = inside ? 0 : /^```text/ ? 2 : 1 }
    else if (inside == 1 && form == "readme") put($0)
    else if (inside == 2 && form == "shown") { sub(/[0-9].*/, ""); gsub(/^ +| +$/, ""); if (length > 4) print }
}
form == "indented" && /^    [^ ]/ { sub(/^    /, ""); sub(/   +.*/, ""); put($0) }
form == "examples" || form == "synopsis" {
    if (/^\.Sh/) section = $2
}
form == "examples" && section == "EXAMPLES" {
    if (/^\.Ed/) inside = 0
    else if (inside) put($0)
    else if (/^\.Bd/) inside = 1
}
form == "synopsis" && section == "SYNOPSIS" {
    if (/^\.Dl /) { sub(/^\.Dl /, ""); put($0) }
    else if (/^\.Nm /) {
        line = $0
        gsub(/"/, "", line)
        gsub(/ (Cm|Op|Ar) /, " ", line)
        gsub(/ (Cm|Op|Ar) /, " ", line)
        gsub(/Fl /, "-", line)
        gsub(/ Nm /, " ", line)
        sub(/^\.Nm /, "", line)
        put(line ~ /^mpirun/ ? line : "moefw " line)
    }
}
