# launches.awk: writes, from kernels/kernels.def, what a test needs to take launches apart.
#
# For each kernel NAME: struct args_NAME, its arguments by value (arrays and descriptors too);
# move_NAME, which sends each pointer through a mover; run_NAME, which calls the kernel of a set;
# launch_NAME, which has the kernel's own type, packs the arguments and hands them to launch().
# Before the file is included, `launch`, `mover` and `moved` must be declared (launch.h).
BEGIN { print "/* Written by launches.awk from kernels/kernels.def. */" }

/^[ \t]*(\/\*|\*)/ { next } # comments
{ text = text "\n" $0 }

function trim(s) { gsub(/[ \t\n]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }

function kernel(name, list,    n, i, arg, part, type, id, fields, move, call, fill, head) {
    n = split(list, part, ",")
    fields = move = fill = ""
    call = "x"
    head = "const mf_kctx *x"
    for (i = 2; i <= n; i++) {
        arg = trim(part[i])
        head = head ", " arg
        match(arg, /[a-z_0-9A-Z]+(\[[0-9]+\])?$/)
        id = substr(arg, RSTART)
        type = trim(substr(arg, 1, RSTART - 1))
        if (id ~ /\[/) { # an array with a length: host memory
            sub(/^const /, "", type)
            fields = fields "    " type " " id ";\n"
            sub(/\[.*/, "", id)
            fill = fill "    memcpy(packed_." id ", " id ", sizeof packed_." id ");\n"
            call = call ", a->" id
        } else if (type ~ /^const mf_(gemm|[a-z_]*args) \*$/) { # a descriptor: host memory
            sub(/^const /, "", type)
            sub(/ \*$/, "", type)
            fields = fields "    " type " " id ";\n"
            fill = fill "    packed_." id " = *" id ";\n"
            move = move "    move_" type "(m, &a->" id ");\n"
            call = call ", &a->" id
        } else {
            fields = fields "    " type " " id ";\n"
            fill = fill "    packed_." id " = " id ";\n"
            if (type ~ /\*$/) move = move "    a->" id " = moved(m, a->" id ", \"" id "\");\n"
            call = call ", a->" id
        }
    }
    print "\ntypedef struct args_" name " {\n" fields "} args_" name ";"
    print "static void move_" name "(const mover *m, void *p)\n{"
    print "    args_" name " *a = p;\n    (void)m, (void)a;\n" move "}"
    print "static void run_" name "(const mf_kernels *k, const mf_kctx *x, void *p)\n{"
    print "    args_" name " *a = p;\n    k->" name "(" call ");\n}"
    print "static void launch_" name "(" head ")\n{"
    print "    args_" name " packed_;\n    memset(&packed_, 0, sizeof packed_);\n" fill
    print "    launch(x, KERNEL_" name ", &packed_, sizeof packed_);\n}"
    names[++count] = name
}

END {
    while ((at = index(text, "MF_KERNEL(")) > 0) {
        text = substr(text, at + 10)
        comma = index(text, ",")
        name = trim(substr(text, 1, comma - 1))
        open = index(text, "(")
        close_ = index(text, ")")
        found[++n] = name
        lists[n] = substr(text, open + 1, close_ - open - 1)
        text = substr(text, close_ + 1)
    }
    print "enum {"
    for (i = 1; i <= n; i++) print "    KERNEL_" found[i] ","
    print "    KERNELS\n};"
    print "static void launch(const mf_kctx *x, int kernel, const void *args, size_t bytes);"
    for (i = 1; i <= n; i++) kernel(found[i], lists[i])
    print "\nstatic const launched_kernel launched[KERNELS] = {"
    for (i = 1; i <= n; i++)
        print "    {\"" found[i] "\", move_" found[i] ", run_" found[i] "},"
    print "};\n\n#define LAUNCH_TABLE \\"
    for (i = 1; i <= n; i++) print "    ." found[i] " = launch_" found[i] (i < n ? ", \\" : "")
}
