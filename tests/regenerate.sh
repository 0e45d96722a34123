#!/bin/sh
# regenerate.sh [--check]: updates etc/moefw.ini and the generated parts of the manual pages from
# the tables of the program MOEFW (default build/moefw). With --check it only prints what differs.
cd "$(dirname "$0")/.." || exit 1
moefw=${MOEFW:-build/moefw}
check=
[ "${1-}" = --check ] && check=yes
"$moefw" --version >/dev/null || exit 1
new=$(mktemp) || exit 1
trap 'rm -f "$new"' EXIT
differs=0

# put FILE: replaces it by the text in $new
put() {
    if [ -n "$check" ]; then
        diff -u "$1" "$new" || differs=1
    else
        cmp -s "$1" "$new" || cat "$new" >"$1"
    fi
}

"$moefw" config show --template >"$new"
put etc/moefw.ini

for page in man/*.[1-9]; do
    grep -q '^\.\\" begin generated: ' "$page" || continue
    while IFS= read -r line; do
        case $line in
        '.\" begin generated: plugins '*)
            printf '%s\n' "$line"
            sh tests/plugin-sections.sh "${line#'.\" begin generated: plugins '}" || exit 1
            skip=yes
            ;;
        '.\" begin generated: moefw '*)
            printf '%s\n' "$line"
            # The words of the command, as they stand in the page.
            # shellcheck disable=SC2086
            "$moefw" ${line#'.\" begin generated: moefw '}
            skip=yes
            ;;
        '.\" end generated')
            printf '%s\n' "$line"
            skip=
            ;;
        *) [ -n "${skip-}" ] || printf '%s\n' "$line" ;;
        esac
    done <"$page" >"$new"
    put "$page"
done
exit "$differs"
