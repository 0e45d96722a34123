# static.awk: what nvcc made of the kernels of CUDA, against tables of rules (rules.tsv, rest.tsv).
#   awk -v arch=sm_90a -f static.awk file=1 rules.tsv file=2 rest.tsv file=3 LOG file=4 SASS
# LOG is what ptxas says with -v, SASS what `nvdisasm -c` prints of the same kernels. A line for each
# rule that is not met, and with show=1 one for each kernel that has a rule; the last line counts. The
# exit status is 1 if a rule is not met, a kernel has no rule, or a rule has no kernel.
#   awk -v occupancies=1 -f static.awk FILE
# compares the blocks of a multiprocessor with those of FILE, whose lines have architecture, registers,
# threads, bytes of shared memory and blocks.

# The name of a kernel with its template arguments: mf_cu_gemm<f32,bf16>, mf_cu_norm<256,f32>.
function readable(mangled,   length_, name, rest, args, one) {
    if (!match(mangled, /^_Z[0-9]+/)) return mangled
    length_ = substr(mangled, 3, RLENGTH - 2) + 0
    name = substr(mangled, RLENGTH + 1, length_)
    rest = substr(mangled, RLENGTH + 1 + length_)
    if (substr(rest, 1, 1) != "I") return name
    rest = substr(rest, 2)
    while (rest != "" && substr(rest, 1, 1) != "E") {
        if (match(rest, /^L[a-z][0-9]+E/)) {
            one = substr(rest, 3, RLENGTH - 3)
            rest = substr(rest, RLENGTH + 1)
        } else {
            one = substr(rest, 1, 1) == "f" ? "f32" : substr(rest, 1, 1) == "t" ? "bf16" : "?"
            rest = one == "?" ? "" : substr(rest, 2)
        }
        args = args (args == "" ? "" : ",") one
    }
    return name "<" args ">"
}
function base(name) { sub(/<.*/, "", name); return name }
function up(n, unit) { return int((n + unit - 1) / unit) * unit }
function least(a, b) { return a < b ? a : b }

# Blocks of a multiprocessor, as cuda_occupancy.h counts them: a warp gets registers in units of 256,
# a quarter of the multiprocessor has a quarter of them, and a block takes 1 KiB of shared memory more.
function occupancy(arch, registers, threads, shared,   warps, quarter, blocks) {
    warps = up(threads, 32) / 32
    quarter = int(16384 / up(registers * 32, 256))
    blocks = int(quarter * 4 / warps)
    blocks = least(blocks, int(most_threads[arch] / 32 / warps))
    blocks = least(blocks, int(most_shared[arch] / up(shared + 1024, 128)))
    return least(blocks, most_blocks[arch])
}

function not_met(text) { print arch ": " text; bad++ }

BEGIN {
    FS = "\t"
    most_threads["sm_80"] = 2048; most_shared["sm_80"] = 164 * 1024; most_blocks["sm_80"] = 32
    most_threads["sm_90a"] = 2048; most_shared["sm_90a"] = 228 * 1024; most_blocks["sm_90a"] = 32
    most_threads["sm_100"] = 2048; most_shared["sm_100"] = 228 * 1024; most_blocks["sm_100"] = 32
    most_threads["sm_120"] = 1536; most_shared["sm_120"] = 100 * 1024; most_blocks["sm_120"] = 24
    if (!occupancies && !(arch in most_threads)) {
        print "static.awk: no limits are known of " arch ", expected sm_80, sm_90a, sm_100 or sm_120"
        done = 2
        exit
    }
}
occupancies {
    split($0, given, " ")
    compared++
    if (occupancy(given[1], given[2], given[3], given[4]) == given[5]) next
    print $0 ": expected " occupancy(given[1], given[2], given[3], given[4])
    bad++
    next
}

file <= 2 && (/^#/ || /^[ \t]*$/) { next }

# rules.tsv
file == 1 {
    if (NF != 9) { not_met("rules.tsv:" FNR ": " NF " columns, expected 9"); next }
    if ($2 != "all" && index(" " $2 " ", " " arch " ") == 0) next
    if (($1, "rule") in row) not_met("rules.tsv:" FNR ": a second rule for " $1)
    row[$1, "rule"] = FNR
    rules[++n_rules] = $1
    ruled[base($1)] = 1
    threads[$1] = $3; shared[$1] = $4; registers[$1] = $5; blocks[$1] = $6; code[$1] = $7; share[$1] = $8
    next
}
# rest.tsv
file == 2 {
    if (NF != 2 || $2 == "") { not_met("rest.tsv:" FNR ": expected a kernel and a reason"); next }
    if ($1 in ruled) not_met("rest.tsv:" FNR ": " $1 " has a rule, too")
    rest[$1] = FNR
    next
}
# what ptxas says
file == 3 && /Compiling entry function/ {
    match($0, /\047[^\047]*\047/)
    kernel = readable(substr($0, RSTART + 1, RLENGTH - 2))
    seen[kernel] = 1
    of_base[base(kernel)] = 1
    n_kernels++
    next
}
file == 3 && /Used [0-9]+ registers/ {
    match($0, /Used [0-9]+/)
    used[kernel] = substr($0, RSTART + 5, RLENGTH - 5) + 0
    fixed[kernel] = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART, RLENGTH) + 0 : 0
    next
}
file == 3 && /bytes stack frame/ && !/ 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads/ {
    text = $0
    sub(/^ */, "", text)
    not_met(kernel ": " text)
    next
}
file == 3 { if (/\(C75[0-9][0-9]\)/) not_met($0); next }

# SASS: the instructions of a kernel, and where its labels and branches are
/^\.text\./ {
    end_of_kernel()
    sub(/^\.text\./, "")
    sub(/:.*/, "")
    kernel = readable($0)
    n = branches = 0
    next
}
/^\.L_x_[0-9]+:/ { sub(/:.*/, ""); label[$0] = n + 1; next }
/^ +\/\*[0-9a-f]+\*\// {
    text = $0
    sub(/^ +\/\*[0-9a-f]+\*\/[ {]+/, "", text)
    sub(/^@!?U?P[T0-9]+ +/, "", text)
    match(text, /^[A-Z0-9_.]+/)
    op[++n] = substr(text, 1, RLENGTH)
    if (op[n] ~ /^(LDL|STL)/ && !(kernel in local)) {
        local[kernel] = 1
        not_met(kernel ": local memory (" op[n] ")")
    }
    if (op[n] ~ /^BRA/ && match(text, /\.L_x_[0-9]+/)) {
        to[++branches] = substr(text, RSTART, RLENGTH)
        from[branches] = n
    }
}

# Whether an instruction is of a kind: HMMA, or with a width LDG.128.
function is_of(opcode, kind,   part) {
    split(kind, part, ".")
    if (opcode != part[1] && index(opcode, part[1] ".") != 1) return 0
    return part[2] == "" || index(opcode ".", "." part[2] ".") > 0
}
# The instructions of this kind in the innermost loop that has most of them: their number in best, all
# of that loop in size. Of loops with the same number the shortest counts: others have what an edge
# needs, too. With none of them in a loop best is 0.
function main_loop(kind,   i, j, k, inner, first, count, all) {
    best = size = 0
    for (i = 1; i <= branches; i++) {
        if (!(to[i] in label) || label[to[i]] > from[i]) continue
        first = label[to[i]]
        inner = 1
        for (j = 1; j <= branches && inner; j++)
            if (j != i && (to[j] in label) && label[to[j]] <= from[j] && label[to[j]] >= first &&
                from[j] <= from[i] && (label[to[j]] > first || from[j] < from[i])) inner = 0
        if (!inner) continue
        count = 0
        for (k = first; k <= from[i]; k++) count += is_of(op[k], kind)
        all = from[i] - first + 1
        if (count > best || (count == best && all < size)) { best = count; size = all }
    }
}
function end_of_kernel(   rule, text) {
    if (n == 0) return
    listed[kernel] = 1
    rule = (kernel, "rule") in row ? kernel : base(kernel)
    if ((rule, "rule") in row) {
        met[rule] = 1
        text = check(rule)
        if (show) print arch ": " kernel ": " text
    } else if (!(base(kernel) in rest) && index(kernel, "mf_cu_") == 1)
        not_met(kernel ": neither a rule in rules.tsv nor a reason in rest.tsv")
    split("", label); split("", op)
}
function check(rule,   here, text) {
    here = occupancy(arch, used[kernel], threads[rule], fixed[kernel] + shared[rule])
    text = used[kernel] " registers, " here " blocks of " threads[rule] " threads"
    if (used[kernel] > registers[rule])
        not_met(kernel ": " used[kernel] " registers, at most " registers[rule])
    if (here < blocks[rule])
        not_met(kernel ": " here " blocks a multiprocessor, at least " blocks[rule])
    if (code[rule] != "-" && share[rule] == "any") {
        for (best = 0; n > 0; n--) best += is_of(op[n], code[rule])
        text = text ", " code[rule] " " best
        if (best == 0) not_met(kernel ": no " code[rule])
    } else if (code[rule] != "-") {
        main_loop(code[rule])
        text = text ", " code[rule] " " best " of " size " in the main loop"
        if (best == 0 || 100 * best < share[rule] * size)
            not_met(kernel ": " code[rule] " " best " of " size " instructions of the main loop, at least " share[rule] " %")
    }
    return text
}
END {
    if (done) exit done
    if (occupancies) {
        print compared + 0 " compared, " bad + 0 " differ"
        exit bad > 0 || compared == 0
    }
    end_of_kernel()
    for (i = 1; i <= n_rules; i++)
        if (!(rules[i] in met)) not_met("rules.tsv:" row[rules[i], "rule"] ": no kernel " rules[i])
    for (k in rest) if (!(k in of_base)) not_met("rest.tsv:" rest[k] ": no kernel " k)
    for (k in seen) if (!(k in listed)) not_met(k ": not in the SASS")
    print arch ": " n_kernels + 0 " kernels, " n_rules + 0 " rules, " bad + 0 " not met"
    exit bad > 0 || n_kernels == 0
}
