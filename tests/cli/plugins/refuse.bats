# Refused plugins: each exits with 4, says what was expected and what was found, and leaves nothing
# behind. They are built here as third parties do: a compiler, the public headers, nothing else.

bats_require_minimum_version 1.5.0
setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export BAD="$BATS_FILE_TMPDIR/bad" MOEFW_PROBE_SECONDS=2
    # In a build with a sanitizer, a crash still ends the process by its signal.
    export ASAN_OPTIONS="handle_segv=0:handle_abort=0:${ASAN_OPTIONS-}"
    export UBSAN_OPTIONS="handle_segv=0:${UBSAN_OPTIONS-}" TSAN_OPTIONS="handle_segv=0:${TSAN_OPTIONS-}"
    mkdir "$BAD"
    local source name extra
    for source in "$srcdir"/tests/plugins/bad/{,load/,tables/,init/,rules/}*.c; do
        name=$(basename "$source" .c)
        extra=
        # From gcc 13 on, a shared object gets that start-up code only with a flag of its own.
        if [ "$name" = fast_math ]; then
            extra=-Ofast
            echo 'int x;' | ${CC:-cc} -mdaz-ftz -x c -c -o /dev/null - 2>/dev/null && extra="-Ofast -mdaz-ftz"
        fi
        # shellcheck disable=SC2086
        ${CC:-cc} -std=gnu11 -O1 $extra -I"$srcdir/include" -I"$builddir/include" -fPIC \
            -fvisibility=hidden -shared -o "$BAD/$name.so" "$source" -lm
    done
}

# refused FILE WORDS...: `plugin info FILE` exits with 4 and prints only a message that has all of
# the words
refused() {
    local file=$1
    shift
    run --separate-stderr "$MOEFW" plugin info "$BAD/$file"
    [ "$status" -eq 4 ] || { echo "status $status: $stderr"; return 1; }
    [ -z "$output" ] || { echo "stdout: $output"; return 1; }
    for word in "plugin '$BAD/$file' refused: " "$@"; do
        [[ "$stderr" == *"$word"* ]] || { echo "lacks '$word': $stderr"; return 1; }
    done
}

@test "a good plugin is accepted, from an older or newer moefw too" {
    for name in good newer_struct; do
        run "$MOEFW" plugin info --json "$BAD/$name.so"
        [ "$status" -eq 0 ]
        [[ "$output" == *'"name":"bad","kind":"router"'* ]]
    done
}

@test "not ELF, empty, truncated, for another machine, not a shared object" {
    printf '#!/bin/sh\n' >"$BAD/script.so"
    refused script.so "not an ELF shared object" "expected the bytes 7f 45 4c 46" "found 23 21 2f 62"
    : >"$BAD/empty.so"
    refused empty.so "expected the bytes 7f 45 4c 46" "found an empty file"
    head -c 40 "$BAD/good.so" >"$BAD/header.so"
    refused header.so "truncated ELF file: expected at least 64 bytes, found 40"
    head -c 9000 "$BAD/good.so" >"$BAD/half.so"
    refused half.so "truncated ELF file: expected at least" "found 9000"
    cp "$BAD/good.so" "$BAD/machine.so"
    printf '\010\000' | dd of="$BAD/machine.so" bs=1 seek=18 conv=notrunc status=none
    refused machine.so "another machine: expected" "found 64-bit machine 8"
    ${CC:-cc} -c -o "$BAD/object.so" -x c /dev/null
    refused object.so "not a shared object: expected ELF type 3" "found 1"
    mkdir "$BAD/folder.so"
    run "$MOEFW" plugin info "$BAD/folder.so"
    [ "$status" -eq 2 ]
    [[ "$output" == *"'$BAD/folder.so': expected a file, found a directory"* ]]
}

@test "symbol, magic, ABI" {
    refused no_symbol.so "expected an exported constant 'moefw_plugin', found none"
    refused no_descriptor.so "expected an exported constant 'moefw_plugin', found none"
    refused symbol_function.so "expected a constant, found a function"
    refused symbol_short.so "expected a descriptor of 104 bytes, found 4"
    refused undefined_symbol.so "expected no undefined symbol, found mf_graph_secret" "-z,defs"
    refused wrong_magic.so "wrong magic: expected 0x6d6f6566, found 0x12345678"
    refused older_abi.so "older plugin ABI: expected 1, found 0" "build it anew"
    refused newer_abi.so "newer plugin ABI: expected 1, found 2" "get a moefw of that ABI"
}

@test "sizes" {
    refused short_struct.so "too short: expected at least 104 bytes, found 40"
    refused huge_struct.so "expected 104 to 4096 bytes, found 2147483647"
    refused short_table.so "vtable_size" "expected at least 40 bytes, found 16"
    refused short_option.so "option_size" "expected at least 64 bytes, found 16"
    refused newer_field.so "uses a field at byte 128" "get a newer moefw"
}

@test "kind, names, functions, slot" {
    refused unknown_kind.so "kind: expected 1 (router) to 5 (adapter), found 9"
    refused null_function.so "function route: expected a function, found NULL"
    refused null_init.so "function init: expected a function, found NULL"
    refused null_table.so "function table is NULL: expected an mf_router"
    refused null_slot.so "host slot: expected" "found NULL"
    refused null_name.so "name: expected a text, found NULL"
    refused bad_name.so "expected 1 to 64 of [a-z0-9_], found 'Bad Name'"
    refused null_brief.so "brief: expected a text, found NULL"
}

@test "options" {
    refused duplicate_option.so "duplicate option 'scale': expected each name once, found it at places 1 and 2"
    refused bad_default.so "option 'scale': its default '11'" "expected a number from 0 to 10"
    refused bad_offset.so "option 'far'" "lies outside conf, which has 16 bytes"
}

@test "addresses where nothing is, choices of a number, flags and fields that must be 0" {
    refused real_choices.so "the choices of an option: expected the address of memory"
    refused int_choices.so "the choices of an option: expected the address of memory"
    refused wild_help.so "the help of an option: expected the address of memory of the plugin, found 0x7f0000000000"
    refused wild_slot.so "host slot: expected the address of memory"
    refused choices_of_real.so "option 'scale': expected choices NULL: only enums and whole numbers"
    refused unknown_flag.so "the function table's flags: expected bits of 0xf, found 0x40"
    refused unknown_option_flag.so "option 'count': expected flags of MF_OPT_* (0x3), found 0x80"
    refused reserved.so "reserved of the descriptor: expected 0, found 7"
}

@test "built with -Ofast" {
    refused fast_math.so "sets flush-to-zero for the whole process" "found 0x9fc0" "without -Ofast"
}

@test "crashes, exits and endless loops are reported" {
    refused crash_constructor.so "killed by SIGSEGV while it was loaded (in a constructor)"
    refused exit_constructor.so "ended the process with status 0 while it was loaded"
    refused crash_init.so "killed by SIGSEGV in init: expected init to return"
    refused abort_init.so "killed by SIGABRT in init"
    refused bus_init.so "killed by SIGBUS in init"
    refused fpe_init.so "killed by SIGFPE in init"
    refused ill_init.so "killed by SIGILL in init"
    refused exit_init.so "ended the process with status 3 in init"
    refused loop_init.so "does not return from init: expected an end within 2 s" "MOEFW_PROBE_SECONDS"
}

@test "a file with write permission for all users" {
    cp "$BAD/good.so" "$BAD/open.so"
    chmod 757 "$BAD/open.so"
    refused open.so "written by everybody" "expected mode 755, found 757"
    run "$MOEFW" plugin info --allow-unsafe-plugins "$BAD/open.so"
    [ "$status" -eq 0 ]
    mkdir -m 777 "$BAD/public"
    cp "$BAD/good.so" "$BAD/public/in.so"
    refused public/in.so "its folder can be written by everybody" "found mode 0777"
}

@test "a drop-in names its file, kind and name" {
    mkdir -p "$XDG_CONFIG_HOME/moefw/plugins.d"
    local ini="$XDG_CONFIG_HOME/moefw/plugins.d/x.ini"
    printf '[plugin bad]\nkind = router\nfile = %s/good.so\n' "$BAD" >"$ini"
    run "$MOEFW" plugin info bad
    [ "$status" -eq 0 ]
    printf '[plugin other]\nkind = router\nfile = %s/good.so\n' "$BAD" >"$ini"
    run "$MOEFW" plugin info other
    [ "$status" -eq 4 ]
    [[ "$output" == *"expected 'other' (said by $ini:2), found 'bad'"* ]]
    printf '[plugin wrong_kind]\nkind = router\nfile = %s/wrong_kind.so\n' "$BAD" >"$ini"
    run "$MOEFW" plugin info wrong_kind
    [ "$status" -eq 4 ]
    [[ "$output" == *"wrong kind: expected a router, found an expert"* ]]
    printf '[plugin gone]\nkind = router\nfile = %s/gone.so\n' "$BAD" >"$ini"
    run "$MOEFW" plugin info gone
    [ "$status" -eq 2 ]
    [[ "$output" == *"$ini:3:"*"is not there"* ]]
    local next="${ini%x.ini}y.ini" last="${ini%x.ini}z.ini"
    printf '[plugin gone]\nkind = router\nfile = ./good.so\n[plugin no_file]\nkind = router\n[notes]\na = 1\n[plugin Good]\nkind = router\nfile = ./good.so\n' >"$next"
    printf 'no key\n' >"$last"
    run --separate-stderr "$MOEFW" plugin list -v
    [ "$status" -eq 0 ]
    [[ "$output" == *"gone"*"REFUSED"*"no_file"*"$next:5: [plugin no_file] has no key 'file': expected the plugin's .so"* ]] || { echo "$output"; return 1; }
    [[ "$output" == *"$next:9: [plugin Good]: expected a name of [a-z0-9_], at most 64 long"* ]] || { echo "$output"; return 1; }
    [[ "$stderr" == *"$next:2: plugin gone is hidden by $ini:2"* ]] || { echo "$stderr"; return 1; }
    [[ "$stderr" == *"$next: [notes] passed over: expected [plugin NAME]"*"drop-in passed over: $last:1: "* ]]
    rm "$ini" "$next" "$last"
}

@test "two files are two plugins, one file under two names is one" {
    local dir="$XDG_CONFIG_HOME/moefw/plugins.d" name
    mkdir -p "$dir"
    for name in one two; do
        ${CC:-cc} -std=gnu11 -DNAME="\"$name\"" -DBRIEF="\"this is $name\"" -I"$srcdir/include" \
            -I"$builddir/include" -fPIC -fvisibility=hidden -shared -o "$BAD/$name.so" \
            "$srcdir/tests/plugins/bad/good.c" -lm
        printf '[plugin %s]\nkind = router\nfile = %s/%s.so\n' $name "$BAD" $name >"$dir/$name.ini"
    done
    ln -s one.so "$BAD/again.so"
    run "$MOEFW" plugin list
    [ "$status" -eq 0 ]
    [[ "$output" == *"one "*"this is one"* ]]
    [[ "$output" == *"two "*"this is two"* ]]
    run "$MOEFW" plugin info "$BAD/again.so"
    [ "$status" -eq 0 ]
    [[ "$output" == "one 1: this is one"* ]]
    rm "$dir"/*.ini
}

@test "an unknown name or file: exit 2 and the nearest" {
    run "$MOEFW" plugin info linaer
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown plugin 'linaer'; did you mean 'linear'?"* ]]
    run "$MOEFW" plugin info routers/linaer.so
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean 'linear'?"* ]]
    cd "$BAD"
    run "$MOEFW" plugin info good.so
    [ "$status" -eq 2 ]
    [[ "$output" == *"for the one in the current folder write ./good.so"* ]]
    run "$MOEFW" plugin info ./good.so
    [ "$status" -eq 0 ]
}

@test "a plugin directly in a folder of MOEFW_PLUGIN_PATH is found by its name" {
    local folder="$BATS_TEST_TMPDIR/mine"
    mkdir -p "$folder/regularizers"
    cp "$BAD/good.so" "$folder/bad.so"
    cp "$BAD/good.so" "$folder/backend_bad.so"
    head -c 40 "$BAD/good.so" >"$folder/broken.so"
    ${CC:-cc} -shared -fPIC -o "$folder/library.so" -x c /dev/null
    export MOEFW_PLUGIN_PATH="$folder"
    run "$MOEFW" plugin info bad
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [[ "$output" == *"file     $folder/bad.so"* ]]
    run --separate-stderr "$MOEFW" plugin list --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"name":"bad","kind":"router","file":"'"$folder/bad.so"'"'*'"error":null'* ]]
    [[ "$output" == *'"name":"broken","kind":null'*"truncated ELF file"* ]]
    [[ "$output" != *'"name":"library"'* && "$output" != *'"name":"backend_bad"'* ]]
    # Its kind is known before it is loaded.
    run "$MOEFW" config check --set expert.plugin=bad
    [ "$status" -eq 2 ]
    [[ "$output" == *"plugin 'bad': expected an expert, found a router"* ]]
    run "$MOEFW" plugin info broken
    [ "$status" -eq 4 ]
    [[ "$output" == *"plugin '$folder/broken.so' refused: truncated ELF file"* ]]
    # The folders of the kinds come first.
    mkdir "$folder/routers"
    cp "$BAD/good.so" "$folder/routers/bad.so"
    run "$MOEFW" plugin info bad
    [[ "$output" == *"file     $folder/routers/bad.so"* ]]
    # Where nothing has the name, the message has the folders.
    run "$MOEFW" plugin info nosuch
    [ "$status" -eq 2 ]
    [[ "$output" == *"looked in drop-ins, in $folder, in "*"/plugins"* ]]
    run "$MOEFW" plugin info library
    [ "$status" -eq 2 ]
    [[ "$output" == *"$folder/library.so exports no 'moefw_plugin'"* ]]
}

@test "plugin list --json has every plugin" {
    run --separate-stderr "$MOEFW" plugin list --json
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == '{"plugins":['*'"name":"linear","kind":"router"'* ]]
    [[ "$output" != *'"error":"'* ]]
}
