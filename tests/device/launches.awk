# launches.awk: writes, from kernels/kernels.def, for the arguments of each kernel the function
# move_mf_NAME_args, which sends each pointer through a mover (launch.h).
BEGIN { print "/* Written by launches.awk from kernels/kernels.def. */" }

!/^#/ { text = text "\n" $0 }

function trim(s) { gsub(/[ \t\n]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }

# One declaration: `type name, *name, ...`
function move(declaration,    n, i, part, type, id) {
    n = split(declaration, part, ",")
    type = trim(part[1])
    sub(/ [*]?[a-z_0-9]+(\[[0-9]+\])?$/, "", type)
    for (i = 1; i <= n; i++) {
        id = trim(part[i])
        if (i == 1) id = substr(id, length(type) + 2)
        if (type ~ /^mf_[a-z]*_args$/) # by value
            print "    move_" type "(m, &a->" id ");"
        if (id !~ /^[*]/) continue
        id = substr(id, 2)
        if (type == "const mf_stored")
            print "    if (a->" id ") a->" id " = move_weight(m, a->" id ");"
        else
            print "    a->" id " = moved(m, a->" id ", \"" id "\");"
    }
}

END {
    while (match(text, /\/\*/)) { # comments
        rest = substr(text, RSTART)
        text = substr(text, 1, RSTART - 1) substr(rest, index(rest, "*/") + 2)
    }
    while ((at = index(text, "MF_KERNEL(")) > 0) {
        text = substr(text, at + 10)
        name = substr(text, 1, index(text, ",") - 1)
        # the fields begin after the third comma that is in no parentheses
        for (i = depth = 1; depth > 0; i++) {
            c = substr(text, i, 1)
            if (c == "(") depth++
            if (c == ")") depth--
            if (c == "," && depth == 1 && ++commas == 3) start = i + 1
        }
        commas = 0
        n = split(substr(text, start, i - 1 - start), field, ";")
        print "\nstatic void move_mf_" name "_args(const mover *m, mf_" name "_args *a)\n{"
        print "    (void)m, (void)a;"
        for (j = 1; j < n; j++) move(field[j])
        print "}"
    }
}
