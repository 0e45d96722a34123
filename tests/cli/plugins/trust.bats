# Which plugin files are loaded: those that the person has installed or names, never one that only a
# configuration or a run names, and none that other users can change.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export SO="$BATS_FILE_TMPDIR/so" MARK="$BATS_FILE_TMPDIR/mark"
    mkdir "$SO"
    ${CC:-cc} -std=gnu11 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -DMARK="\"$MARK\"" -o "$SO/marks.so" "$srcdir/tests/badplugins/program/marks.c" -lm
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cp "$SO/marks.so" marks.so
    printf '[model]\ndim = 16\nlayers = 2\nheads = 2\nkv_heads = 2\nseq = 16\n' >small.ini
    printf '[train]\nbatch = 2\nsteps = 2\neval_context = 0\neval_batches = 1\n' >>small.ini
    cp small.ini evil.ini
    printf '[router]\nplugin = ./marks.so\n' >>evil.ini
    rm -f "$MARK"
}

# silent COMMAND...: the command refuses the plugin, and nothing in it has run
silent() {
    run --separate-stderr "$MOEFW" "$@"
    [ "$status" -eq 4 ] || { echo "$*: status $status: $output $stderr"; return 1; }
    [[ "$stderr$output" == *"marks.so"*": only a configuration names it"* ]] || { echo "$stderr"; return 1; }
    [ ! -e "$MARK" ] || { echo "$*: it ran: $(cat "$MARK")"; return 1; }
}

@test "a plugin that only a configuration names is not loaded by any verb" {
    silent train evil.ini -t 1
    silent config check evil.ini
    silent config check --json evil.ini
    silent graph evil.ini
    silent bench train evil.ini -t 1
    run "$MOEFW" compare --routers linear evil.ini -t 1 --steps 2 --seeds 1 --out c -q
    [ ! -e "$MARK" ]
    run "$MOEFW" config show evil.ini
    [ "$status" -eq 0 ]
    [[ "$output" == *"marks.so"* ]]
    [ ! -e "$MARK" ]
}

@test "a path that climbs out of a plugin folder is not one below it" {
    local up=../../../../../../../../../../../../proc/self/cwd/marks.so
    printf '[router]\nplugin = routers/%s\n' "$up" | cat small.ini - >climb.ini
    for verb in 'config check' 'config show' graph 'train -t 1'; do
        # shellcheck disable=SC2086
        run "$MOEFW" $verb climb.ini
        [ ! -e "$MARK" ] || { echo "$verb: it ran"; return 1; }
    done
    [ "$status" -eq 2 ] || { echo "$status: $output"; return 1; }
    [[ "$output" == *"climb.ini:"*": plugin file 'routers/$up' not found: looked as given"* ]] || { echo "$output"; return 1; }
    mkdir routers # now there is such a file
    silent config check climb.ini
    silent train climb.ini -t 1
    mkdir -p "$XDG_CONFIG_HOME/moefw/plugins.d"
    printf '[plugin climber]\nkind = router\nfile = routers/%s\n' "$up" >"$XDG_CONFIG_HOME/moefw/plugins.d/climber.ini"
    run "$MOEFW" plugin info climber
    rm "$XDG_CONFIG_HOME/moefw/plugins.d/climber.ini"
    [ "$status" -ne 0 ]
    [[ "$output" == *"file 'routers/$up' of plugin climber is not there"* ]] || { echo "$output"; return 1; }
    [ ! -e "$MARK" ]
}

@test "a communicator that only a configuration names is not loaded" {
    printf '[parallel]\ncomm = ./marks.so\n' | cat small.ini - >comm.ini
    silent train comm.ini -t 1
    # The command line may name it, but it is no communicator, which its bytes tell.
    run "$MOEFW" train small.ini -t 1 --out run --set parallel.comm=./marks.so
    [ "$status" -eq 4 ] || { echo "$output"; return 1; }
    [[ "$output" == *"marks.so: no symbol moefw_comm"* ]] || { echo "$output"; return 1; }
    [ ! -e "$MARK" ]
    run "$MOEFW" train small.ini -t 1 --out run -q
    [ "$status" -eq 0 ]
    printf '\n[parallel]\ncomm = ./marks.so\n' >>run/config.ini
    run "$MOEFW" train run --resume -t 1
    [ "$status" -ne 0 ]
    [ ! -e "$MARK" ]
}

@test "a file of data on the command line does not allow a plugin" {
    run "$MOEFW" train small.ini -t 1 --out run -q
    [ "$status" -eq 0 ]
    cp marks.so run/data.txt
    sed -i 's#^plugin = linear#plugin = ./run/data.txt#' run/config.ini
    for words in 'eval run --data ./run/data.txt' 'generate run -n 1 -f ./run/data.txt' \
        'eval run --tokens ./run/data.txt' 'eval run --set data.path=./run/data.txt'; do
        # shellcheck disable=SC2086
        run "$MOEFW" $words -t 1
        [ "$status" -ne 0 ] || { echo "$words: status 0: $output"; return 1; }
        [ ! -e "$MARK" ] || { echo "$words: it ran"; return 1; }
    done
}

@test "a comparison that goes on loads what its person has named, and nothing else" {
    run "$MOEFW" compare small.ini --routers linear,hash --seeds 1 -t 1 --set train.save_every=1 --out c -q
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    cp -r c d
    rm -r d/hash/seed-1/ckpt/step-2
    rm d/hash/seed-1/manifest.json # which knows another config.ini
    cp marks.so d/
    sed -i 's#^plugin = hash.*#plugin = ./d/marks.so#' d/hash/seed-1/config.ini
    run "$MOEFW" compare d -t 1 -q
    [ ! -e "$MARK" ] || { echo "it ran: $output"; return 1; }
    grep -rq 'only a configuration names it' d/hash --include=*.log
    # What the command line names is allowed in the processes of the runs, too.
    run "$MOEFW" compare small.ini --routers linear,./marks.so --seeds 1 -t 1 --out e -q
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ -e "$MARK" ]
}

@test "the same file on the command line, or the flag, allows it" {
    run "$MOEFW" train evil.ini -t 1 --out a --plugin ./marks.so
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ -e "$MARK" ]
    rm "$MARK"
    run "$MOEFW" train evil.ini -t 1 --out b --allow-config-plugins
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    run "$MOEFW" train small.ini -t 1 --out c --set router.plugin=./marks.so
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
}

@test "a run is a configuration, too: eval, generate and resume" {
    run "$MOEFW" train small.ini -t 1 --out run --plugin ./marks.so
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    rm -f "$MARK"
    silent eval run -t 1
    silent generate run -p a -n 1 -t 1
    silent train run --resume -t 1
    run "$MOEFW" eval run -t 1 --plugin ./marks.so
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ "$output" != *"is ignored"* ]] # it permits the file
    run "$MOEFW" eval run -t 1 --plugin ./marks.so --plugin cosine
    [[ "$output" == *"--plugin=cosine is ignored: run has its own configuration"* && "$output" != *"marks.so is ignored"* ]]
    run "$MOEFW" report run -o r.html
    run "$MOEFW" eval run -t 1 --allow-config-plugins
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
}

@test "an installed plugin comes before one of the current folder" {
    mkdir routers
    cp marks.so routers/hash.so
    run "$MOEFW" plugin info routers/hash.so
    [ "$status" -eq 0 ]
    [[ "$output" == "hash "* ]]
    [ ! -e "$MARK" ]
    run "$MOEFW" plugin info ./routers/hash.so
    [ -e "$MARK" ]
}

@test "files and folders of other users, and files of a foreign group" {
    [ "$(id -u)" -eq 0 ] || skip "only root can give files away"
    cp marks.so other.so
    chown 12345 other.so
    run "$MOEFW" plugin info ./other.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"the file belongs to another user: expected number 0 or 0, found 12345"* ]]
    cp marks.so group.so
    chgrp 12345 group.so
    chmod 775 group.so
    run "$MOEFW" plugin info ./group.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"can be written by group 12345"* ]]
    mkdir -p theirs/deep
    cp marks.so theirs/deep
    chown 12345 theirs
    run "$MOEFW" plugin info theirs/deep/marks.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"its folder $PWD/theirs belongs to another user"* ]]
    chown 0 theirs
    chmod 777 theirs
    run "$MOEFW" plugin info theirs/deep/marks.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"its folder can be written by everybody: "*"of $PWD/theirs; "* ]]
    chmod 2775 theirs
    chgrp 12345 theirs
    run "$MOEFW" plugin info theirs/deep/marks.so
    [ "$status" -eq 4 ]
    [[ "$output" == *"its folder can be written by group 12345, which is not yours: "*"of $PWD/theirs; "* ]]
    [ ! -e "$MARK" ]
    run "$MOEFW" plugin info --allow-unsafe-plugins theirs/deep/marks.so
    [ "$status" -eq 0 ]
}
