#!/bin/sh
# This test runs shellcheck over every shell script and expects no finding.
. "$(dirname "$0")/lib.sh"

command -v shellcheck >/dev/null 2>&1 || skip_all "no shellcheck (package: shellcheck)"
cd "$srcdir" || exit 1
# 1091: lib.sh is found at run time; 2154: srcdir and builddir come from it.
for script in quickstart .ci/run $(sources tests share man bench -- '*.sh'); do
    [ -f "$script" ] && report "$script" "$(shellcheck -e SC1091,SC2154 -f gcc "$script" 2>&1)"
done
for file in $(sources tests -- '*.bats'); do
    report "$file" "$(shellcheck -s bats -i SC2314,SC2315 -f gcc "$file" 2>&1)"
done
done_testing
