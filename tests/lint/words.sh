#!/bin/sh
# words.sh: text that must not be left in the sources: unfinished work, and paths of one machine.
# The brackets keep this file from finding itself.
. "$(dirname "$0")/lib.sh"

find_words() {
    (cd "$srcdir" && all_sources '*' | xargs grep -nIE "$@" .ci/run | cut -c1-160)
}

report "no open ends" "$(find_words '\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b')"
report "no paths of one machine" "$(find_words '/(w[o]rk|f[a]rm|h[o]me/[a-z]+)/|/r[o]ot/')"
report "no trailing blanks" "$(find_words '[[:blank:]]+$' | grep -vE '^[^:]*\.(md|svg|golden|txt):')"
done_testing
