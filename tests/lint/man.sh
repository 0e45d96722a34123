#!/bin/sh
# man.sh: the manual pages are valid mdoc.
. "$(dirname "$0")/lib.sh"

command -v mandoc >/dev/null 2>&1 || skip_all "no mandoc (package: mandoc)"
pages=$(sources man -- '*.[1-9]')
[ -n "$pages" ] || skip_all "no manual pages"
cd "$srcdir" || exit 1
for page in $pages; do
    report "$page" "$(mandoc -Tlint -W warning "$page" 2>&1)"
done
done_testing
