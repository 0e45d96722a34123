#!/bin/sh
# names.sh: the core names no plugin. The names are those of the files under plugins/; what is
# looked for is the name as a whole string literal.
. "$(dirname "$0")/lib.sh"

# FILES:NAME, with the reason why the word means something else there.
allowed=$(
    cat <<'END'
core/model/config_tables.c:cosine a schedule of the learning rate
core/model/config_tables.c:linear a schedule of the learning rate
core/model/config_tables.c:relu   an activation of dense blocks
core/model/config_tables.c:swiglu an activation of dense blocks
core/model/count.c:attention      a module of the model
core/ops/attention.c:attention    an op
core/ops/linear.c:linear          an op
core/ops/product.h:linear         an op
core/ops/swiglu.c:swiglu          an op
core/train/checkpoint_manifest.c:hash the checksum of a plugin's file
core/train/*:entropy              a measurement in metrics.jsonl
core/report/*:entropy             a measurement in metrics.jsonl
core/lab/*:entropy                a measurement in metrics.jsonl
core/report/*:attention           a part of a block
core/report/report_structure.c:linear a form of skips
END
)

names=$(sources plugins -- '*.c' | sed 's,.*/,,; s,\.c$,,' | sort -u | paste -sd '|' -)
report "there are plugins to look for" "$([ -n "$names" ] || echo "no file under plugins")"

hits=$(cd "$srcdir" && sources core -- '*.[ch]' '*.def' | xargs grep -nE "\"($names)\"" /dev/null)
report "no plugin is named in core" "$(printf '%s\n' "$hits" | while IFS=: read -r file line text; do
    [ -n "$file" ] || continue
    for name in $(printf '%s\n' "$text" | grep -oE "\"($names)\"" | tr -d '"'); do
        printf '%s\n' "$allowed" | while read -r rule _; do
            # The rule is a pattern.
            # shellcheck disable=SC2254
            case $file:$name in $rule) echo found ;; esac
        done | grep -q found || echo "$file:$line: \"$name\""
    done
done)"
done_testing
