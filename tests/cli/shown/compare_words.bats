# What a comparison says of itself: which router is the baseline, what its first line foretells,
# and what it is when runs have no result.

bats_require_minimum_version 1.5.0
setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export OMP_WAIT_POLICY=passive
    mkdir -p "$BATS_FILE_TMPDIR/work"
    cd "$BATS_FILE_TMPDIR/work" || return 1
    for folder in mine v2; do
        mkdir "$folder"
        ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC \
            -fvisibility=hidden -shared -o "$folder/mine.so" "$srcdir/plugins/routers/linear.c" -lm
    done
    "$MOEFW" config show default -t 1 --set 'data.path=builtin:topics?bytes=40000' \
        --set model.layers=1 --set model.dim=32 --set train.batch=2 --set train.steps=3 \
        --set router.plugin=./mine/mine.so >own.ini
}
setup() { cd "$BATS_FILE_TMPDIR/work" || return 1; }

@test "the baseline is the configuration's file, not a file whose plugin has the same name" {
    run --separate-stderr "$MOEFW" compare own.ini -t 1 --seeds 1 \
        --routers linear,./v2/mine.so,mine/mine.so --out namesake --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"baseline":"mine/mine.so"'* ]]
    # nor is a namesake the baseline where the configuration's router is not listed
    run --separate-stderr "$MOEFW" compare own.ini -t 1 --seeds 1 \
        --routers linear,./v2/mine.so --out unlisted --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"baseline":"linear"'* ]]
    # --baseline names the same file by another path: no second router
    run --separate-stderr "$MOEFW" compare own.ini -t 1 --seeds 1 \
        --routers linear,v2/mine.so --baseline ./v2/mine.so --out path --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"baseline":"v2/mine.so"'* ]]
    [ "$(grep -o '"router":' <<<"$output" | wc -l)" -eq 2 ]
}

@test "a search takes the configuration's file as its baseline, too" {
    run --separate-stderr "$MOEFW" compare own.ini -t 1 --seeds 1 \
        --routers linear,./mine/mine.so --grid train.lr=1e-3,2e-3 --out searched --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"baseline":"./mine/mine.so:train.lr='* ]]
}

@test "a router of which every run diverged is lacking: INCOMPLETE, status 5, no verdict against it" {
    sed 's/"handicap"/"wild"/; s/out->logits = .*/out->logits = mf_scale(g, logits, INFINITY);/' \
        "$srcdir/tests/plugins/third_party/handicap.c" >wild.c
    ${CC:-cc} -std=gnu11 -O1 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden \
        -shared -include math.h -o wild.so wild.c -lm
    run --separate-stderr "$MOEFW" compare own.ini -t 1 --seeds 3 --routers ./wild.so,linear --out wild
    [ "$status" -eq 5 ] || { echo "$status $stderr"; return 1; }
    [[ "$output" == "INCOMPLETE: 1 of 2 routers without a result: ./wild.so, see below"* ]]
    [[ "$output" == *'not compared'* && "$output" != *'no difference shown'* ]]
    [[ "$stderr" == *"moefw: every run of ./wild.so diverged, so the comparison lacks it; "* ]]
    grep -q 'INCOMPLETE, 1 router without a result (./wild.so): 2 routers' wild/report.html
    grep -q '"verdict":"not compared"' wild/comparison.json
}

@test "with two seeds the first line promises no difference that the last one denies" {
    run --separate-stderr "$MOEFW" compare own.ini -t 1 --seeds 2 --routers linear,hash --out few
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"2 seeds: too few to show a difference; verdicts need 3 or more (--seeds 8)"* ]]
    [[ "$stderr" != *"in 4 of 5 comparisons"* ]]
    [[ "$output" == *"With fewer than 3 seeds nothing can be shown"* ]]
}

@test "on a terminal the bar of a comparison leaves no lines of steps behind" {
    script --version >/dev/null 2>&1 || skip "no script(1)"
    TERM=xterm script -qec "stty cols 80; '$MOEFW' compare own.ini -t 1 --seeds 1 --routers linear,hash --out bar" /dev/null |
        tr -d '\r' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' >bar.txt
    grep -q '2 of 2: ' bar.txt
    [ "$(grep -cE '^step +[0-9]+/[0-9]+ *$' bar.txt)" -eq 0 ]
}
