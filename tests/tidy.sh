#!/bin/sh
# tidy.sh BUILD [FOLDER...]: clang-tidy with the checks of .clang-tidy, over the C files of the
# folders (core lib tools plugins) that the build in BUILD compiles. The exit status is 1 if it finds something.
set -u
[ $# -ge 1 ] || { echo "tidy.sh: expected the build folder" >&2; exit 2; }
build=$(cd "$1" && pwd) || exit 1
shift
[ $# -gt 0 ] || set -- core lib tools plugins
cd "$(dirname "$0")/.." || exit 1
for tidy in clang-tidy-14 clang-tidy; do
    command -v "$tidy" >/dev/null 2>&1 && break
done
command -v "$tidy" >/dev/null 2>&1 || { echo "tidy.sh: no clang-tidy (package: clang-tidy)" >&2; exit 6; }
[ -f "$build/compile_commands.json" ] || { echo "tidy.sh: $build/compile_commands.json: missing; make compile_commands.json" >&2; exit 2; }
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
find "$@" -name '*.c' | sort | while read -r file; do
    grep -qF "/${file}\"" "$build/compile_commands.json" && printf '%s\0' "$file"
done | xargs -0 -n 8 -P "$(getconf _NPROCESSORS_ONLN)" "$tidy" -p "$build" --quiet >"$log" 2>/dev/null
status=$?
grep -E '^[^ ]+:[0-9]+:[0-9]+: (warning|error):' "$log" | sort -u
echo "$(grep -cE '^[^ ]+:[0-9]+:[0-9]+: (warning|error):' "$log") findings"
[ "$status" -eq 0 ]
