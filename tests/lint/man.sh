#!/bin/sh
# man.sh: the manual pages are valid mdoc, and fit 80 columns where groff shows them.
. "$(dirname "$0")/lib.sh"

command -v mandoc >/dev/null 2>&1 || skip_all "no mandoc (package: mandoc)"
pages=$(sources man -- '*.[1-9]')
[ -n "$pages" ] || skip_all "no manual pages"
cd "$srcdir" || exit 1
for page in $pages; do
    report "$page" "$(mandoc -Tlint -W warning "$page" 2>&1
        ! command -v groff >/dev/null 2>&1 || groff -mandoc -Tutf8 "$page" 2>&1 >/dev/null)"
done
done_testing
