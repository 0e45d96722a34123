#!/bin/sh
# counts.sh LOG: what failed and what the compiler said in the output of `make check`, and, as the last
# line, how many tests passed. The exit status is 1 if there is no line of totals: something was not built.
grep -h '^ERROR:\|^FAIL:\|warning:\|error:' "$1"
sed -n 's/^# \(PASS\|SKIP\|XFAIL\|FAIL\|XPASS\|ERROR\): *//p' "$1" | tr '\n' ' ' |
    awk 'NF < 6 { print "the suite did not run"; exit 1 }
         { printf "%d passed, %d failed, %d skipped\n", $1, $4 + $5 + $6, $2 }'
