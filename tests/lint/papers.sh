#!/bin/sh
# papers.sh: core knows no paper and no published system by name: what single papers need are plugins.
# One file may: that of old keys and words, and what they mean now.
. "$(dirname "$0")/lib.sh"

allowed=core/config/aliases.c
words='lamoe|tagat|film|u-?net|sentinel|ntlb|simbal|tia[-_]?r|dbgw|switch[- ]transformers?'

files=$(cd "$srcdir" && sources core lib tools kernels -- '*.[ch]' '*.def' | grep -vxF "$allowed")
report "there are files to look at" "$([ -n "$files" ] || echo "no file")"
report "the file of old names exists" "$([ -f "$srcdir/$allowed" ] || echo "$allowed is not there")"
# An underscore ends a word, too.
# shellcheck disable=SC2086
report "core names no paper and no system of one" "$(cd "$srcdir" && grep -niE "(^|[^a-z])($words)([^a-z]|$)" /dev/null $files)"
report "no file is named after one" "$(printf '%s\n' "$files" | grep -iE "($words)")"
done_testing
