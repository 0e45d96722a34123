#!/bin/sh
# bats.sh: every line of a bats test can fail it. In bash, a command after ! never fails a script
# unless it is the last one; "! COMMAND || false" does.
. "$(dirname "$0")/lib.sh"

cd "$srcdir" || exit 1
report "no line of a bats test begins with ! alone" \
    "$(sources tests -- '*.bats' | xargs grep -nE '^[[:space:]]*! ' /dev/null | grep -v ' || ')"
done_testing
