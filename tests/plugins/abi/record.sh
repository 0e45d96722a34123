#!/bin/sh
# record.sh: records what was appended to the plugin ABI in tests/plugins/abi/abi1.layout. It refuses any
# other change. For the source root, with the headers of the build folder build.
cd "$(dirname "$0")/../../.." || exit 1
new=$(mktemp) || exit 1
trap 'rm -f "$new"' EXIT
sh tests/plugins/abi/layout.sh include "${1-build}/include" >"$new" || exit 1
if [ -e tests/plugins/abi/abi1.layout ]; then
    changes=$(sh tests/plugins/abi/check.sh tests/plugins/abi/abi1.layout "$new" | grep -v '^not recorded: ')
    [ -z "$changes" ] || { echo "$changes"; exit 1; }
fi
cat "$new" >tests/plugins/abi/abi1.layout
