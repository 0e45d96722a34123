#!/bin/sh
# includes.sh: which folder may include which headers.
#   core      base < graph < ops < plugin < comm < config < model < train
#   lib       io < data < generate < run < pretrained < api
#   tools     lab < report < cli
#             a folder includes itself, those before it on its floor and the floors before it, and the
#             kernel table, as "folder/file.h"; files of its own folder also by their bare name
#   kernels   kernels/kernel.h, cost.h, kernels.def, their own set (kernels/ref, kernels/cpu, ...), libc
#   plugins   <moefw/...>, C's own headers
#   include   the same, and of C only headers that declare types
#   comm      modules: core/comm/table.h and the engine's header
#   libraries   each library's header in the one file named below
. "$(dirname "$0")/lib.sh"

# FILE LINE NAME: one line for each include; NAME keeps its <> or "".
includes() {
    sources "$@" -- '*.[ch]' '*.def' '*.cu' '*.cuh' | while read -r file; do
        awk -v file="$file" '/^[ \t]*#[ \t]*include[ \t]*[<"]/ {
            match($0, /[<"][^>"]*[>"]/)
            print file, NR, substr($0, RSTART, RLENGTH)
        }' "$srcdir/$file"
    done
}

# symbols.sh looks at the same from the linker's side.
report "folders include only those before them" "$(includes core lib tools | awk -v order="$layers" '
    BEGIN {
        n = split(order, f, " ")
        for (i = 1; i <= n; i++) { split(f[i], part, "/"); place[f[i]] = i; layer[part[2]] = i }
    }
    $3 ~ /^"/ {
        name = substr($3, 2, length($3) - 2)
        split($1, at, "/"); split(name, to, "/"); here = at[1] "/" at[2]
        if (name ~ /^(config|kernels\/(kernel|cost))\.h$/ || name == "kernels/kernels.def") next
        if (!(here in place)) { print $1 ":" $2 ": " here " is no layer"; next }
        if (index(name, "/") == 0) next
        if (!(to[1] in layer)) { print $1 ":" $2 ": " $3 ": expected \"LAYER/FILE\""; next }
        if (layer[to[1]] > place[here]) print $1 ":" $2 ": " at[2] " includes " $3 ", a later layer"
    }')"

c_headers=' assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string time wchar wctype '

report "kernels include the kernel table, their own set and libc" "$(includes kernels | awk -v libc="$c_headers" '
    {
        name = substr($3, 2, length($3) - 2)
        split($1, at, "/"); folder = at[1] "/" at[2] "/"
        if ($3 ~ /^"/) {
            if (name ~ /^kernels\/(kernel\.h|cost\.h|kernels\.def)$/) next
            if (name == "graph/device/device.h" && $1 ~ /^kernels\/cuda\/backend\.h/) next
            if (index(name, "/") == 0 || index(name, folder) == 1) next
        } else {
            stem = name; sub(/\.h$/, "", stem)
            if (index(libc, " " stem " ")) next
            if (name ~ /^(immintrin|cpuid|arm_neon|sys\/auxv)\.h$/ && $1 ~ /^kernels\/(cpu|table)/) next
            if (name ~ /^(unistd|sys\/syscall)\.h$/ && $1 ~ /^kernels\/cpu\/(amx|cache)/) next
            if (name == "sys/mman.h" && $1 ~ /^kernels\/cpu\/(blas|workspace)/) next
            if (name ~ /^(cblas|dlfcn)\.h$/) next # checked below: one file each
            if (name ~ /^(cuda|cub|cooperative_groups|mma)/ && $1 ~ /^kernels\/cuda\//) next
            if (name == "pthread.h" && $1 ~ /^kernels\/cpu\/workspace\.c/) next
            if (name ~ /^(moefw\/version|pthread)\.h$/ && $1 ~ /^kernels\/cuda\/(backend|queue)\.c/) next
        }
        print $1 ":" $2 ": " $3
    }')"

report "plugins include <moefw/...> and libc only" "$(includes plugins share/template | awk -v libc="$c_headers" '
    {
        stem = substr($3, 2, length($3) - 4)
        if ($3 ~ /^<moefw\// || ($3 ~ /^</ && index(libc, " " stem " "))) next
        print $1 ":" $2 ": " $3
    }')"

report "public headers include <moefw/...> and C's types only" "$(includes include | awk '
    $1 == "include/moefw/kernel.cuh" && $3 == "\"device.cuh\"" { next } # for kernels only
    $3 !~ /^<moefw\// && $3 !~ /^<std(arg|bool|def|int)\.h>$/ { print $1 ":" $2 ": " $3 }')"

report "a third-party header is included by one file" "$(includes core lib tools kernels plugins tests/unit | awk '
    BEGIN {
        home["cblas.h"] = "kernels/cpu/blas.c"
        home["ini.h"] = "core/base/text/ini.c"
        home["dlfcn.h"] = "core/base/file/paths.c core/graph/plugin_kernels.c lib/io/http.c tools/cli/talk/line_edit.c core/plugin/load/open.c core/plugin/load/module.c core/plugin/load/mapped.c tests/unit/plugin/check_load.c tests/unit/train/check_mirror.c kernels/cpu/blas.c"
        home["curl/curl.h"] = "lib/io/http.c"
        home["jansson.h"] = "lib/io/json.c"
        home["utf8proc.h"] = "lib/io/unicode.c"
        home["xxhash.h"] = "core/base/hash.c"
        for (h in home) foreign = foreign " " h
    }
    $3 ~ /^</ {
        name = substr($3, 2, length($3) - 2)
        if (name in home && index(" " home[name] " ", " " $1 " ") == 0)
            print $1 ":" $2 ": " name " belongs in " home[name]
        if (name ~ /^(cuda|cublas|nccl|mpi)/ && $1 !~ /^kernels\/cuda\// && $1 !~ /^comm\//)
            print $1 ":" $2 ": " name " belongs in a plugin of its own"
    }')"
done_testing
