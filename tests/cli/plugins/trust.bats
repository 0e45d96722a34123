# Which plugin files are loaded: those that the person has installed or names, never one that only a
# configuration or a run names, and none that other users can change.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export SO="$BATS_FILE_TMPDIR/so" MARK="$BATS_FILE_TMPDIR/mark"
    mkdir "$SO"
    ${CC:-cc} -std=gnu11 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -DMARK="\"$MARK\"" -o "$SO/marks.so" "$srcdir/tests/plugins/bad/program/marks.c" -lm
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cp "$SO/marks.so" marks.so
    printf '[model]\ndim = 16\nlayers = 2\nheads = 2\nkv_heads = 2\nseq = 16\n' >small.ini
    printf '[train]\nbatch = 2\nsteps = 2\neval_context = 0\neval_batches = 1\n' >>small.ini
    cp small.ini evil.ini
    printf '[router]\nplugin = ./marks.so\n' >>evil.ini
    rm -f "$MARK"
    export XDG_STATE_HOME="$PWD/state" # each test begins without trust
    unset OMP_WAIT_POLICY GOMP_SPINCOUNT # the program restarts itself, as it does for users
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
    # What the command line names is allowed in the processes of the runs, too, also where nothing is remembered.
    XDG_STATE_HOME=/dev/null run "$MOEFW" compare small.ini --routers linear,./marks.so --seeds 1 -t 1 --out e
    echo "$output"
    [ "$status" -eq 0 ]
    [ -e "$MARK" ]
    [ -d e/%2e%2fmarks.so/seed-1/ckpt/step-2 ] || [ -d e/.%2fmarks.so/seed-1/ckpt/step-2 ]
    [[ "$output" != *skipped* ]]
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
    XDG_STATE_HOME=/dev/null run "$MOEFW" train small.ini -t 1 --out run --plugin ./marks.so # nothing is remembered
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    rm -f "$MARK"
    silent eval run -t 1
    [[ "$stderr" == *"or trust it from now on: moefw plugin trust "*marks.so ]] || { echo "$stderr"; return 1; }
    silent generate run -p a -n 1 -t 1
    silent train run --resume -t 1
    env -u HOME -u XDG_STATE_HOME "$MOEFW" eval run -t 1 --plugin ./marks.so -q # works once, without a home
    rm -f "$MARK"
    silent eval run -t 1
    run "$MOEFW" eval run -t 1 --plugin ./marks.so
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [[ "$output" != *"is ignored"* ]] # it permits the file
    run "$MOEFW" eval run -t 1 --plugin ./marks.so --plugin cosine
    [[ "$output" == *"--plugin=cosine is ignored: run has its own configuration"* && "$output" != *"marks.so is ignored"* ]]
    run "$MOEFW" report run -o r.html
    run "$MOEFW" eval run -t 1 --allow-config-plugins
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
}

# takes COMMAND...: the command loads the plugin, which nothing on it names
takes() {
    rm -f "$MARK"
    run --separate-stderr "$MOEFW" "$@"
    [ "$status" -eq 0 ] || { echo "$*: status $status: $output $stderr"; return 1; }
    [ -e "$MARK" ] || { echo "$*: it was not loaded"; return 1; }
}

@test "bytes that were named once are taken from a configuration, others are not" {
    run "$MOEFW" train small.ini -t 1 --out run --plugin ./marks.so -q
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ "$(stat -c %a state/moefw/trusted)" = 600 ]
    grep -qx "$(sha256sum marks.so | cut -d' ' -f1)  $PWD/marks.so" state/moefw/trusted
    takes eval run -t 1
    takes generate run -p a -n 1 -t 1
    takes train run --resume -t 1
    takes train run/config.ini -t 1 --out again
    takes trace record run -t 1 -o trace.bin
    takes bench infer run -t 1
    takes graph run/config.ini
    takes config check evil.ini
    mkdir elsewhere
    cp marks.so elsewhere/
    sed 's#./marks.so#./elsewhere/marks.so#' evil.ini >moved.ini
    takes config check moved.ini
    # one more byte, and it is another file
    cp marks.so elsewhere/same.so
    printf x >>elsewhere/marks.so
    rm -f "$MARK"
    silent config check moved.ini
    printf x >>marks.so
    rm -f "$MARK"
    silent eval run -t 1
    "$MOEFW" plugin trust marks.so
    takes eval run -t 1
    "$MOEFW" plugin list --trusted | grep -q "^[0-9a-f]\{64\}  $PWD/marks.so$"
    "$MOEFW" plugin list --trusted --json | grep -q '"sha256":"'
    "$MOEFW" plugin distrust marks.so
    rm -f "$MARK"
    silent eval run -t 1
    [ -z "$("$MOEFW" plugin list --trusted)" ]
    run "$MOEFW" plugin distrust marks.so
    [ "$status" -ne 0 ]
    [[ "$output" == *"is not trusted"* ]]
    "$MOEFW" plugin trust marks.so elsewhere/same.so
    hash=$(sha256sum elsewhere/same.so | cut -c 1-12)
    "$MOEFW" plugin distrust "$hash"
    [ "$(wc -l <state/moefw/trusted)" -eq 1 ]
    [ ! -e "$MARK" ] # neither verb runs anything
    printf 'no plugin\n' >text.so
    run "$MOEFW" plugin trust text.so
    [ "$status" -eq 4 ]
    run grep text.so state/moefw/trusted
    [ "$status" -eq 1 ]
}

@test "a list that others could have written is not believed; wrong lines are dropped" {
    run "$MOEFW" train small.ini -t 1 --out run --plugin ./marks.so -q
    [ "$status" -eq 0 ]
    rm -f "$MARK"
    chmod 666 state/moefw/trusted
    silent eval run -t 1
    [[ "$stderr" == *"state/moefw/trusted is not used: others can write to it"* ]] || { echo "$stderr"; return 1; }
    chmod 600 state/moefw/trusted
    chmod 777 state/moefw
    silent eval run -t 1
    chmod 700 state/moefw
    mv state/moefw/trusted other
    ln -s "$PWD/other" state/moefw/trusted
    silent eval run -t 1
    [[ "$stderr" == *"is not used: it is a link"* ]] || { echo "$stderr"; return 1; }
    cp other before
    run "$MOEFW" eval run -t 1 --plugin ./marks.so # a link is not written through
    [ "$status" -eq 0 ]
    cmp before other
    rm state/moefw/trusted
    mv state/moefw elsewhere
    ln -s "$PWD/elsewhere" state/moefw
    cp other elsewhere/trusted
    rm -f "$MARK"
    silent eval run -t 1
    rm state/moefw
    mv elsewhere state/moefw
    { head -c 300 /dev/urandom; printf '\nnothing\n%064d  relative\n' 0; cat other; printf 'cut'; } >state/moefw/trusted
    chmod 600 state/moefw/trusted
    takes eval run -t 1
    cp marks.so new.so
    printf x >>new.so
    "$MOEFW" plugin trust new.so
    [ "$(wc -l <state/moefw/trusted)" -eq 2 ]
    [ "$(grep -cE '^[0-9a-f]{64}  /' state/moefw/trusted)" -eq 2 ]
    # many at once: none is lost
    for i in 1 2 3 4 5 6 7 8; do
        cp marks.so "many$i.so"
        printf '%s' "$i" >>"many$i.so"
        "$MOEFW" plugin trust "many$i.so" 3>&- &
    done
    wait
    [ "$(wc -l <state/moefw/trusted)" -eq 10 ]
    [ "$(find state/moefw -type f | wc -l)" -eq 2 ]
}

@test "a plugin that loads libraries from its own folder is not taken from another one" {
    ${CC:-cc} -std=gnu11 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -DMARK="\"$MARK\"" -o beside.so "$srcdir/tests/plugins/bad/program/marks.c" -lm -Wl,-rpath,'$ORIGIN'
    sed 's#./marks.so#./beside.so#' evil.ini >beside.ini
    "$MOEFW" plugin trust ./beside.so
    takes config check beside.ini
    mkdir moved
    cp beside.so moved/
    sed 's#./marks.so#./moved/beside.so#' evil.ini >moved.ini
    rm -f "$MARK"
    run "$MOEFW" config check moved.ini
    [ "$status" -eq 4 ]
    [ ! -e "$MARK" ]
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
