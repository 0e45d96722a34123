#!/bin/sh
# run-bats.sh FILE.bats: runs one bats file and prints TAP for automake's harness.
if [ -z "$BATS" ] || [ "$BATS" = no ]; then
    echo "1..0 # SKIP bats is not installed (package: bats)"
    exit 0
fi
BASH_ENV=$(cd "$(dirname "$0")" && pwd)/lib/tools.bash "$BATS" --tap "$@"
status=$?
# 1: a test failed, which the "not ok" lines tell; a failing status would count as one more failure.
[ "$status" -eq 1 ] && status=0
exit "$status"
