#!/bin/sh
# kernels.sh: what another device's kernels rest on. The table stays small, no kernel returns a value,
# and ops never touch the elements of a tensor: they launch kernels.
. "$(dirname "$0")/lib.sh"

most=62

# FILE:FUNCTION of core/ops that may loop, with the reason.
allowed='
core/ops/shape.c:forward_concat      over the inputs: one launch each
core/ops/shape.c:forward_transpose   over the dimensions
'

table=$srcdir/kernels/kernels.def
kernels=$(sed -n 's/^MF_KERNEL[_AS]*(\([a-z0-9_]*\),.*/\1/p' "$table")
count=$(echo "$kernels" | wc -l)
report "there are kernels" "$([ -n "$kernels" ] || echo "no MF_KERNEL in $table")"
report "at most $most kernels" "$([ "$count" -le "$most" ] || echo "$count")"
set='(SIMD|CPU|REF)' name='[*]?[a-z0-9_]+(\[4\])?'
report "each is declared MF_KERNEL(name, set, MF_COST(...), type name, *name; ...), or MF_KERNEL_AS" "$(
    sed '/^#/d; s,/\*.*\*/,,; /\/\*/,/\*\//d' "$table" | tr '\n' ' ' | sed 's/MF_KERNEL/\n&/g' |
        tr -s ' ' | sed '/^ *$/d; s/ *$//' |
        grep -vE "^MF_KERNEL\\([a-z0-9_]+, $set, MF_COST\\(.*\\),( [a-z0-9_]+( [a-z0-9_]+)? ($name, )*$name;)+ *\\)\$" |
        grep -vE "^MF_KERNEL_AS\\([a-z0-9_]+, mf_[a-z_]+, $set, .*\\)\$"
)"
report "no kernel returns a value" "$(
    grep -rnE 'define MF_KERNEL\(fn, \.\.\.\)' "$srcdir/kernels" | grep -vE '\) void ?[ (*a-zA-Z]'  |
        grep -vE '\) \.fn'
)"

# A function of core/ops that is handed a call, or the elements of a tensor, and loops.
# The awk program below is quoted as a whole.
# shellcheck disable=SC2016
report "ops do not loop over the elements of tensors" "$(cd "$srcdir" && sources core/ops -- '*.[ch]' | xargs awk -v allowed="$allowed" '
    function forget() { head = ""; inside = 0 }
    FNR == 1 { forget() }
    /^[a-z].*\(/ && !/;$/ { head = ""; collect = 1 }
    collect { head = head " " $0 }
    /^\{/ {
        collect = 0
        inside = head ~ /const mf_call \*/ || head ~ /(float|int32_t|mf_bf16|uint16_t|void) \*/
        name = head; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
    }
    /^\}/ { forget() }
    /;$/ && collect { collect = 0; head = "" }
    inside && /(^|[^a-z_])(for|while|memcpy|memset|memmove|qsort) ?\(/ && index(allowed, FILENAME ":" name " ") == 0 {
        print FILENAME ":" FNR ": " name ": " $0
    }')"
report "every exception exists" "$(echo "$allowed" | sed '/^$/d' | while IFS=': ' read -r file name _; do
    grep -qs "$name(" "$srcdir/$file" || echo "$file: $name"
done)"
done_testing
