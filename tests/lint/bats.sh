#!/bin/sh
# bats.sh: every line of a bats test can fail it. In bash, a command after ! never fails a script
# unless it is the last one; "! COMMAND || false" does. Of A && B only B can fail it, so a claim
# stands on a line of its own.
. "$(dirname "$0")/lib.sh"

cd "$srcdir" || exit 1
report "no line of a bats test begins with ! alone" \
    "$(sources tests -- '*.bats' | xargs grep -nE '^[[:space:]]*! ' /dev/null | grep -v ' || ')"
report "no line of a bats test joins two claims by &&" \
    "$(sources tests -- '*.bats' '*.bash' |
        xargs grep -nE '^[[:space:]]*(\[|grep|cmp|diff|awk)[^|]* && (\[|grep|cmp|diff|awk)[^|&]*$' /dev/null |
        grep -v '&& return\|\\\\$')"
done_testing
