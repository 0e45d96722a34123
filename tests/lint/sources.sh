#!/bin/sh
# sources.sh: every source file is listed in a local.mk exactly once. Automake has no wildcards, so
# a file that is not listed would silently be missing from build and tarball. And the names of
# variables that have a status, and functions of compilers that GCC 11, the oldest one, lacks.
. "$(dirname "$0")/lib.sh"

listed=$(cd "$srcdir" && cat ./*/local.mk include/moefw/local.mk |
    sed -n 's/^[A-Za-z_]* *+= *//p' | tr -s ' ' '\n' | sed 's/\.so$/.c/' | sort)

missing() {
    while read -r file; do
        printf '%s\n' "$listed" | grep -qxF "${file%"$1"}" || echo "$file"
    done
}

report "C files of core, lib, tools, kernels and plugins are listed" \
    "$(sources core lib tools kernels plugins include -- '*.[ch]' '*.def' | grep -v '/cli/main\.c$' | missing '')"
report "unit tests are listed" "$(sources tests/unit -- 'check_*.c' | missing .c)"
report "bats files are listed" "$(sources tests -- '*.bats' | missing '')"
report "fuzz targets are listed and have seeds" "$(sources tests/fuzz -- 'fuzz_*.c' | missing .c
    sources tests/fuzz -- 'fuzz_*.c' | sed 's,tests/fuzz/fuzz_\(.*\)\.c,\1,' | while read -r name; do
        [ -n "$(sources "tests/fuzz/corpus/$name" -- '*')" ] || echo "tests/fuzz/corpus/$name: no seeds"
    done)"
report "what tests share is listed" "$(sources tests/lib tests/unit -- '*.h' '*.c' | grep -v '/check_[^/]*\.c$' | missing '')"
report "lints are listed" "$(sources tests/lint -- '*.sh' | grep -v '/lib\.sh$' | missing '')"
report "settings, presets, templates and manual pages are listed" \
    "$(sources etc share man -- '*' | grep -vE '/(local|rules)\.mk$' | missing '')"
report "no file is listed twice" "$(printf '%s\n' "$listed" | grep '/' | grep -v -e '[$=]' -e '\.a$' | uniq -d)"
report "status variables are rc or code, and first for the first of several" "$(cd "$srcdir" &&
    sources core lib tools kernels plugins comm -- '*.c' | xargs grep -nE '\bint [a-z_]+ = (mf_fail\(|MF_OK;|MF_E[A-Z]+;)' |
    grep -vE '\bint (rc|code|first) =')"
report "__builtin_shufflevector, which GCC 11 lacks, stands behind a macro alone" "$(cd "$srcdir" &&
    sources core lib tools kernels plugins comm -- '*.[ch]' | xargs grep -n '__builtin_shufflevector' | grep -v '#define')"
done_testing
