#!/bin/sh
# unused.sh: a global function of core is there because another file calls it. One that nothing
# outside its file names is made static, or goes if nothing in it does either.
. "$(dirname "$0")/lib.sh"

# Constructors of ops are an interface of their own: gradients use some of them only.
# Declarations, which stand at the beginning of a line of a header, and comments are no uses.
# shellcheck disable=SC2016  # the awk program is meant to be literal
report "every global function of core is used by another file" "$(cd "$srcdir" &&
    sources core lib tools kernels include plugins tests -- '*.[ch]' '*.def' '*.awk' | xargs awk '
    function note(name) {
        if (last[name] == "") last[name] = FILENAME
        else if (last[name] != FILENAME) shared[name] = 1
    }
    FNR == 1 { header = FILENAME ~ /\.h$/; comment = 0 }
    {
        line = $0
        if (comment) {
            if (line !~ /\*\//) next
            sub(/^.*\*\//, "", line)
            comment = 0
        }
        gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
        if (line ~ /\/\*/) { comment = 1; sub(/\/\*.*$/, "", line) }
        if (header && line ~ /^[a-z]/ && line !~ /^static/) next
        if (!header && FILENAME ~ /^(core|lib|tools)\// && line ~ /^[a-z].*[ *]?mf_[a-z0-9_]+\(/ &&
            line !~ /^(static|typedef|extern)/ && line !~ /;$/ && line !~ /^[a-z_]+\(/) {
            match(line, /mf_[a-z0-9_]+\(/)
            defined[substr(line, RSTART, RLENGTH - 1)] = FILENAME
        }
        while (match(line, /mf_[a-z0-9_]+/)) {
            note(substr(line, RSTART, RLENGTH))
            line = substr(line, RSTART + RLENGTH)
        }
    }
    END {
        for (name in defined)
            if (!shared[name] && defined[name] !~ /^core\/ops\//) print defined[name] ": " name
    }' | sort)"
done_testing
