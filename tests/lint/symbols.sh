#!/bin/sh
# symbols.sh: which symbols the built files export and import.
. "$(dirname "$0")/lib.sh"

command -v nm >/dev/null 2>&1 || skip_all "no nm (package: binutils)"
[ -d "$builddir/plugins" ] || skip_all "nothing is built in $builddir"
backend=$builddir/plugins/backend_cuda.so
plugins=$(find "$builddir/plugins" -name '*.so' ! -path '*/plugins/comm/*' ! -path "$backend" | sort)

# The sanitizers' and gcov's own symbols appear in builds made with them.
instrumented='^__(odr_)?(asan|ubsan|tsan|gcov|sanitizer|sancov|llvm)'

report "some plugins are built" "$([ -n "$plugins" ] || echo "no .so in $builddir/plugins")"

# exports NAME FILE...: those of the files that export anything else than NAME
exports() {
    name=$1
    shift
    for so; do
        found=$(nm -D --defined-only "$so" | awk -v skip="$instrumented" '$3 !~ skip { print $2, $3 }')
        case $found in
        [DRB]" $name") ;;
        *) echo "${so#"$builddir"/}: $(echo "$found" | tr '\n' ';')" ;;
        esac
    done
}
# shellcheck disable=SC2086
report "a plugin exports moefw_plugin, as data, and nothing else" "$(exports moefw_plugin $plugins)"
title="the backend of CUDA exports moefw_backend, as data, and nothing else"
if [ -e "$backend" ]; then
    report "$title" "$(exports moefw_backend "$backend")"
else
    skip "$title" "this build has none"
fi

title="a plugin needs nothing but libc and libm"
# shellcheck disable=SC2086
if nm -D -u $plugins | grep -qE ' __(asan|tsan)'; then
    skip "$title" "the sanitizer stands in for functions of libc here"
else
    report "$title" "$(for so in $plugins; do
        nm -D -u "$so" | awk -v so="${so#"$builddir"/}" -v skip="$instrumented" '
            $1 == "w" || $1 == "v" || $2 ~ skip || $2 ~ /@GLIBC/ { next } { print so ": " $2 }'
    done)"
fi

# Every name that a SIMD object exports contains its instruction set, so that no two can be
# mixed up.
report "SIMD objects export only names of their instruction set" "$(for lib in "$builddir"/kernels/libsimd-*.a; do
    isa=$(basename "$lib" .a)
    isa=${isa#libsimd-}
    isa=${isa%bf16} isa=${isa%amx} # an extension of a set: code compiled for it exists nowhere else
    nm -g --defined-only "$lib" 2>/dev/null | awk -v isa="$isa" -v skip="$instrumented" '
        NF == 3 && $3 !~ skip && $3 !~ "_" isa "$" { print "libsimd-" isa ": " $3 }'
done)"

# A declaration that is copied by hand passes includes.sh, but not this.
climbs() {
    (cd "$builddir" && find core lib tools -name '*.o' | while read -r object; do
        [ -e "$srcdir/${object%.o}.c" ] && echo "$object"
    done | xargs nm -A) | awk -v order="$layers" '
        BEGIN { n = split(order, f, " "); for (i = 1; i <= n; i++) place[f[i]] = i }
        {
            split($1, at, ":"); split(at[1], part, "/")
            if ($(NF - 1) == "U") { needs[++m] = at[1] SUBSEP part[1] "/" part[2] SUBSEP $NF; next }
            if ($(NF - 1) ~ /^[TDBRCG]$/) home[$NF] = part[1] "/" part[2]
        }
        END {
            for (i = 1; i <= m; i++) {
                split(needs[i], need, SUBSEP)
                if (place[home[need[3]]] > place[need[2]])
                    print need[1] ": " need[3] " is defined in " home[need[3]]
            }
        }' | sort
}
report "no layer needs a symbol of a later one" "$(climbs)"

report "the program needs no optional library" "$(readelf -d "$builddir/moefw" "$builddir/libmoefw.so.0" |
    sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -E '^lib(cuda|cudart|cublas|openblas|nccl|mpi|curl|stdc)')"
done_testing
