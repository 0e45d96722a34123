#!/bin/sh
# bats.sh: every line of a bats test can fail it. To bash a command behind ! never fails, wherever it
# stands but last: "! COMMAND || false" says the same and counts.
. "$(dirname "$0")/lib.sh"

cd "$srcdir" || exit 1
report "no line of a bats test begins with ! alone" \
    "$(sources tests -- '*.bats' | xargs grep -nE '^[[:space:]]*! ' /dev/null | grep -v ' || ')"
done_testing
