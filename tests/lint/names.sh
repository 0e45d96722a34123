#!/bin/sh
# names.sh: the core names no plugin. The names are those of the files under plugins/; what is
# looked for is the name as a whole string literal.
. "$(dirname "$0")/lib.sh"

# FILE:NAME, with the reason why the word means something else there.
allowed=$(
    cat <<'END'
core/cli/verb_plugin.c:hash      the checksum of a plugin's file
core/model/config_tables.c:cosine a schedule of the learning rate
core/model/config_tables.c:linear a schedule of the learning rate
core/model/config_tables.c:relu   an activation of dense blocks
core/model/config_tables.c:swiglu an activation of dense blocks
core/ops/linear.c:linear          the op y = x w + b, which every model has
END
)

names=$(sources plugins -- '*.c' | sed 's,.*/,,; s,\.c$,,' | sort -u | paste -sd '|' -)
report "there are plugins to look for" "$([ -n "$names" ] || echo "no file under plugins")"

hits=$(cd "$srcdir" && sources core -- '*.[ch]' '*.def' | xargs grep -nE "\"($names)\"" /dev/null)
report "no plugin is named in core" "$(printf '%s\n' "$hits" | while IFS=: read -r file line text; do
    [ -n "$file" ] || continue
    for name in $(printf '%s\n' "$text" | grep -oE "\"($names)\"" | tr -d '"'); do
        printf '%s\n' "$allowed" | grep -q "^$file:$name " || echo "$file:$line: \"$name\""
    done
done)"

report "every exception is still in use" "$(printf '%s\n' "$allowed" | while IFS=': ' read -r file name _; do
    [ -z "$file" ] || grep -q "\"$name\"" "$srcdir/$file" 2>/dev/null || echo "$file:$name"
done)"
done_testing
