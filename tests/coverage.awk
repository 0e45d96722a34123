# coverage.awk: reads the text of `gcov -b -c -t` for many objects and prints, for each folder of core,
# kernels and plugins, the share of lines and of branches that ran. A file that is compiled more than
# once (kernels, headers) counts once: a line or branch ran if it did in one of them. What only a failed
# allocation reaches counts in neither column: lines that name MF_ENOMEM, and the tests before them.
#   -v missing=PATH   also lists the lines and branches below PATH that did not run
#   -v reasons=FILE   unreached.tsv: why lines are not run by the suite. Runs of lines of core and kernels
#                     that it does not name are printed, and so are entries whose lines ran. An entry
#                     holds for one run of lines: a second one with the same text needs an entry, too.
BEGIN {
    while (reasons != "" && (getline entry < reasons) > 0) {
        if (entry ~ /^#/ || entry == "") continue
        if (split(entry, column, "\t") != 4) {
            printf "%s: expected 4 columns: %s\n", reasons, entry >"/dev/stderr"
            bad = 1
            continue
        }
        entries[column[1] "\t" column[2]]++
    }
}

function count(text)
{
    sub(/\*$/, "", text)
    return text ~ /^[0-9]+$/ ? text + 0 : 0
}

/^ *[^:]*: *0:Source:/ {
    file = $0
    sub(/^[^:]*: *0:Source:/, "", file)
    gsub(/\/\.\//, "/", file)
    # the path below the folder of the sources
    wanted = file !~ /(^|\/)tests\// && match(file, /(^|\/)(core|kernels|plugins)\/.*\.[ch]$/)
    if (wanted) {
        file = substr(file, RSTART)
        sub(/^\//, "", file)
        if (!(file in known)) files[++n_files] = file
        known[file] = 1
    }
    next
}
!wanted { next }
/^ *[^ :]+: *[0-9]+:/ {
    match($0, /^ *[^ :]+: *[0-9]+:/)
    head = substr($0, 1, RLENGTH - 1)
    text = substr($0, RLENGTH + 1)
    split(head, part, ":")
    gsub(/ /, "", part[1])
    line = part[2] + 0
    branch = 0
    source[file, line] = text
    if (line > last[file]) last[file] = line
    if (part[1] != "-") {
        code[file, line] = 1
        ran[file, line] += count(part[1])
    }
    next
}
/^branch / {
    if (branch + 1 > branches[file, line]) branches[file, line] = branch + 1
    if ($3 == "taken") taken[file, line, branch] += $4
    branch++
    next
}

# Whether what fails here is an allocation.
function memory(f, l,    before, value)
{
    if (source[f, l] ~ /MF_ENOMEM|no memory/) return 1
    if (source[f, l] !~ /^ *(} else )?if \(/ && source[f, l] !~ /^ *(\|\||&&|return )/) return 0
    # if (!p) {            if (!p)
    #     ... MF_ENOMEM        ... MF_ENOMEM
    if (source[f, l + 1] ~ /MF_ENOMEM|no memory/) return 1
    # p = mf_alloc(...);
    # if (!p) return NULL;
    before = source[f, l - 1]
    value = source[f, l]
    if (!sub(/^.*if \(!/, "", value) || !match(value, /^[a-z_0-9.>-]+/)) return 0
    value = substr(value, 1, RLENGTH)
    return index(before, value " = ") && before ~ /(mf_alloc|mf_realloc|mf_alloc_raw|mf_strn?dup|mf_memdup|mf_strf|mf_arena_[a-z]+|_new)\(/
}

# Whether lines from..to, which did not run and follow the line before, are the end of a failed
# allocation: they begin by naming it, or what is tested before them is one, or they only free something
# and then name it.
function after_allocation(f, before, from, to,    l)
{
    for (l = from; l <= to && source[f, l] ~ /^ *[a-z_]*(free|close)\([^;]*;$/; l++) continue
    if (source[f, l] ~ /^ *(return|[a-z_.>-]* = )?.*(MF_ENOMEM|out of memory|no memory)/ && \
        (source[f, l] !~ / \? / || source[f, l] ~ /\? MF_OK : MF_ENOMEM;$/)) return 1
    return before && source[f, before] !~ /;/ && memory(f, before) && to - from < 4
}

function trimmed(text)
{
    sub(/^[ \t]+/, "", text)
    sub(/[ \t]+$/, "", text)
    return text
}

# Lines that did not run, one behind the other: counted as of an allocation, as of known reason or as
# of none.
function unreached(f, before, from, to, n,    key)
{
    if (after_allocation(f, before, from, to)) {
        n_memory += n
        return
    }
    key = f "\t" trimmed(source[f, from])
    if (met[key] < entries[key]) {
        n_reason += n
        met[key]++
        return
    }
    n_unknown += n
    printf "%s:%d: %d line%s without a test or a reason: %s\n", f, from, n, (n > 1 ? "s" : ""), \
        trimmed(source[f, from]) >"/dev/stderr"
}

# The runs of lines of one file that did not run.
function runs(f,    l, from, to, n, before)
{
    from = n = before = 0
    for (l = 1; l <= last[f]; l++) {
        if (!((f, l) in code)) continue
        if (ran[f, l]) {
            if (n) unreached(f, before, from, to, n)
            n = 0
            before = l
            continue
        }
        if (!n) from = l
        n++
        to = l
    }
    if (n) unreached(f, before, from, to, n)
}

function percent(part, all)
{
    return all ? sprintf("%.1f", 100 * part / all) : "-"
}

function row(name, d)
{
    printf "%-26s %7d %7s %9d %8s\n", name, lines[d], percent(lines_ran[d], lines[d]), \
        ways[d], percent(ways_ran[d], ways[d])
}

END {
    for (i = 1; i <= n_files; i++) {
        f = files[i]
        n = split(f, part, "/")
        folder = n > 2 ? part[1] "/" part[2] : part[1] "/"
        if (!(folder in lines)) folders[++n_folders] = folder
        for (l = 1; l <= last[f]; l++) {
            if (!((f, l) in code) || source[f, l] ~ /MF_ENOMEM/) continue
            lines[folder]++
            lines[part[1]]++
            if (ran[f, l]) {
                lines_ran[folder]++
                lines_ran[part[1]]++
            } else if (missing != "" && index(f, missing) == 1)
                printf "%s:%d: line: %s\n", f, l, source[f, l] >"/dev/stderr"
            if (memory(f, l)) continue
            not = ""
            for (b = 0; b < branches[f, l]; b++) {
                ways[folder]++
                ways[part[1]]++
                if (taken[f, l, b] > 0) {
                    ways_ran[folder]++
                    ways_ran[part[1]]++
                } else not = not " " b
            }
            if (missing != "" && index(f, missing) == 1 && not != "" && ran[f, l])
                printf "%s:%d: branch%s: %s\n", f, l, not, source[f, l] >"/dev/stderr"
        }
    }
    for (i = 1; i <= n_folders; i++)
        for (j = i + 1; j <= n_folders; j++)
            if (folders[j] < folders[i]) {
                t = folders[i]
                folders[i] = folders[j]
                folders[j] = t
            }
    printf "%-26s %7s %7s %9s %8s\n", "folder", "lines", "% ran", "branches", "% taken"
    for (i = 1; i <= n_folders; i++) row(folders[i], folders[i])
    if ("core" in lines) row("core, all", "core")
    if ("kernels" in lines) row("kernels, all", "kernels")
    if (reasons != "") {
        for (i = 1; i <= n_files; i++)
            if (files[i] ~ /^(core|kernels)\//) runs(files[i])
        for (key in entries)
            if (met[key] < entries[key])
                printf "%s: its lines ran, or are no more: %s\n", reasons, key >"/dev/stderr"
        printf "core and kernels: %d lines after failed allocations, %d of known reason, %d without a test or a reason\n", \
            n_memory, n_reason, n_unknown
        if (bad || (goal && n_unknown)) exit 1
    }
    # for scripts: the goal of core
    if (goal && (lines_ran["core"] < .95 * lines["core"] || ways_ran["core"] < .85 * ways["core"])) exit 1
}
