# mutants.awk: lists each change of one token that mutants.sh may draw, a line for each:
#     FILE LINE COLUMN LENGTH OLD NEW     (tabs between them; columns from 1)
# Comments, strings, characters, lines of the preprocessor, and lines with assertions have none.

function put(at, old, new) {
    print FILENAME "\t" FNR "\t" at "\t" length(old) "\t" old "\t" new
}

BEGIN {
    n = split("<= < >= > == != && || += -= ++ --", two, " ")
    for (i = 1; i <= n; i += 2) { to[two[i]] = two[i + 1]; to[two[i + 1]] = two[i] }
    to["true"] = "false"; to["false"] = "true"; to["0"] = "1"; to["1"] = "0"
    # binary only: with a space on both sides, as clang-format writes them
    spaced["+"] = "-"; spaced["-"] = "+"; spaced["*"] = "/"; spaced["/"] = "*"; spaced["%"] = "*"
    to["<"] = "<="; to[">"] = ">="
}

FNR == 1 { comment = directive = 0 }

{
    line = $0
    if (directive || (!comment && line ~ /^[ \t]*#/)) {
        directive = line ~ /\\$/
        next
    }
    judged = line !~ /assert|_Static/
    for (i = 1; i <= length(line); ) {
        rest = substr(line, i)
        if (comment) {
            if (!(k = index(rest, "*/"))) break
            comment = 0
            i += k + 1
        } else if (substr(rest, 1, 2) == "/*") {
            comment = 1
            i += 2
        } else if (substr(rest, 1, 2) == "//") {
            break
        } else if (match(rest, /^"([^"\\]|\\.)*"/) || match(rest, /^'([^'\\]|\\.)*'/)) {
            i += RLENGTH
        } else if (match(rest, /^[A-Za-z_][A-Za-z_0-9]*/) || match(rest, /^\.?[0-9][A-Za-z_0-9.]*/)) {
            word = substr(rest, 1, RLENGTH)
            if (judged && (word in to)) put(i, word, to[word])
            if (judged && word ~ /^MF_E[A-Z]+$/ && substr(line, 1, i - 1) ~ /return $/)
                put(i, word, "MF_OK")
            if (judged && word == "MF_OK" && substr(line, 1, i - 1) ~ /return $/)
                put(i, word, "MF_EINVAL")
            i += RLENGTH
        } else if (match(rest, /^(<<=?|>>=?|->)/)) {
            i += RLENGTH
        } else if (match(rest, /^([<>=!+*\/%-]=|&&|\|\||\+\+|--)/)) {
            word = substr(rest, 1, 2)
            if (judged && (word in to)) put(i, word, to[word])
            i += 2
        } else {
            c = substr(rest, 1, 1)
            if (judged && (c == "<" || c == ">") && substr(line, i - 1, 3) ~ /^ . $/) put(i, c, to[c])
            if (judged && (c in spaced) && substr(line, i - 1, 3) ~ /^ . $/) put(i, c, spaced[c])
            if (judged && c == "!") put(i, c, "")
            i++
        }
    }
}
