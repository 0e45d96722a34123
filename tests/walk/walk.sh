# shellcheck shell=bash
# walk.sh: walks commands of a document in a shell that knows nothing: env -i PATH HOME TERM. Sourced by walk.bats.
#   $walk: the folder of it all; $walk/given: what a user brings, by the names that the documents have

# rows KIND: the lines of the table of this kind
rows() {
    awk -F '\t' -v kind="$1" '$1 == kind { print $2 "\t" $3 }' "$srcdir/tests/walk/table.tsv"
}

# used KIND TEXT: notes that a line of the table was needed
used() {
    printf '%s\t%s\n' "$1" "$2" >>"$walk/used"
}

# given COMMAND: puts the paths of what is given for its names
given() {
    text=$1
    for path in "$walk"/given/*; do
        name=${path##*/}
        text=$(printf '%s' "$text" | sed -E "s#(^|[ =,])${name//./[.]}(\$|[ ,/])#\\1$path\\2#g; s#(^|[ =,])${name//./[.]}(\$|[ ,/])#\\1$path\\2#g")
    done
    printf '%s\n' "$text"
}

# sized COMMAND: with the options that make it small
sized() {
    while IFS=$'\t' read -r regex options; do
        printf '%s' "$1" | grep -qE "(^|/|[ =])$regex" || continue
        used size "$regex"
        printf '%s %s\n' "$1" "$options"
        return
    done < <(rows size)
    printf '%s\n' "$1"
}

# walk NAME FOLDER: runs, in $path and $home, the commands of standard input, one a line, in this order in one shell. Each must end with 0. Its output,
# and the commands that it proposes, are in $walk/NAME.said and $walk/NAME.next.
walk() {
    script=$walk/$1.sh
    : >"$walk/$1.next"
    cat >"$script" <<'SH'
# shows COMMAND: what it said. Training says which weights it trains; an import's configuration trains the import.
shows() {
    cat "$said"
    case $1 in
    *'moefw train '*/config.ini*)
        run=${1#*moefw train } run=${run%%/config.ini*}
        [ -s "$run/metrics.jsonl" ] || grep -q "weights: of .*${run##*/}, step 0" "$said" ||
            { echo "FAILED: $1 does not train the weights of $run"; exit 1; } ;;
    *'moefw train '*) grep -q 'weights: ' "$said" || { echo "FAILED: $1 does not say which weights it trains"; exit 1; } ;;
    esac
    awk '/^try next/ { on = 1; next } on && /^  [^ ]/ { print substr($0, 3); next } on && !/^ / { on = 0 }
        /; next:$/ { list = 1; next } list && /^    [^ ]/ { print substr($0, 5); next } { list = 0 }' "$said" >>"$next"
}
SH
    {
        echo "said='$walk/$1.one' next='$walk/$1.next'"
        echo "cd '$2' || exit 1"
    } >>"$script"
    while IFS= read -r raw; do
        echo "$raw" >>"$walk/all"
        if rows elsewhere | cut -f 1 | grep -qxF -- "$raw"; then
            used elsewhere "$raw"
            continue
        fi
        command=$(rows as | awk -F '\t' -v raw="$raw" '$1 == raw { print $2 }' | head -n 1)
        [ -z "$command" ] || used as "$raw"
        command=$(sized "$(given "${command:-$raw}")")
        quoted=$(printf '%s' "$command" | sed "s/'/'\\\\''/g")
        printf '%s\n' "printf '%s\\n' '+ $quoted'" "{ $command
} >\"\$said\" 2>&1 </dev/null || { status=\$?; cat \"\$said\"; echo \"FAILED with \$status: \"'$quoted'; exit 1; }" \
            "shows '$quoted'" >>"$script"
    done
    env -i PATH="${path:-/usr/local/bin:/usr/bin:/bin}" HOME="${home:-$walk/home}" TERM=dumb sh -u "$script" >"$walk/$1.said" 2>&1 || {
        tail -n 40 "$walk/$1.said"
        return 1
    }
    echo "walked $(grep -c '^+ ' "$walk/$1.said") commands"
}
