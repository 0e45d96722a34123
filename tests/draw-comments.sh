#!/bin/sh
# draw-comments.sh [--seed N] [--count N]: draws comments of C files at random, for somebody who did
# not write them to judge against the words of CONTRIBUTING.md. The same seed and the same files give the
# same draw. Each comment is one entry: FILE:LINE, then its text.
cd "$(dirname "$0")/.." || exit 1
seed=1 count=110
while [ $# -gt 0 ]; do
    case $1 in
        --seed) seed=${2:-} ;;
        --count) count=${2:-} ;;
        *) echo "draw-comments.sh: expected --seed N or --count N, found '$1'" >&2; exit 64 ;;
    esac
    case ${2:-} in '' | *[!0-9]*) echo "draw-comments.sh: $1: expected a number, found '${2:-}'" >&2; exit 64 ;; esac
    shift 2
done
find core lib tools kernels plugins include share tests -path tests/plugins/abi01 -prune -o -name '*.[ch]' -print | LC_ALL=C sort |
    xargs awk -f tests/lint/comments.awk | awk -F '\t' -v seed="$seed" -v count="$count" '
    $3 == 1 { n++; where[n] = $1 ":" $2 }
    { text[n] = text[n] ($3 == 1 ? "" : "\n") "    " $5 }
    # Park and Miller: the same numbers from every awk.
    function draw(below) {
        state = (state * 48271) % 2147483647
        return int(state / 2147483647 * below) + 1
    }
    END {
        state = seed % 2147483646 + 1
        for (i = 0; i < 8; i++) draw(1)
        for (i = 1; i <= count && i <= n; i++) {
            at = i + draw(n - i + 1) - 1
            w = where[at]; where[at] = where[i]; where[i] = w
            t = text[at]; text[at] = text[i]; text[i] = t
            print where[i] "\n" text[i]
        }
    }'
