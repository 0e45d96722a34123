# moefw board: results that can be compared in one table, ranges of ranks, marks of verification, refused files.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" OMP_WAIT_POLICY=passive
    mkdir -p "$BATS_FILE_TMPDIR/w/board/deep"
    cd "$BATS_FILE_TMPDIR/w" || return 1
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%s ", substr("the quick brown fox jumps over a lazy dog again", i * 7 % 40 + 1, 5) }' >text
    small linear,linear:train.lr=0.00001,hash 4 40 one
    small linear,mlp 3 40 two
    small linear,mlp 3 20 three
    cp one/result.json board/one.json
    cp two/result.json board/deep/two.json
    cp three/result.json board/three.json
    "$MOEFW" verify board/one.json --seeds 2 -o checked -t 1 -q >/dev/null
    "$MOEFW" verify board/one.json --seeds 0 --fresh 1 --router hash -o fresh -t 1 -q >/dev/null || true
    cp checked/verified.json board/checked.json
    cp fresh/verified.json board/fresh.json
    sed 's/"seed":2/"seed":8/' one/result.json >board/changed.json
    cp one/comparison.json board/other.json
    "$MOEFW" board board >said
}
setup() { cd "$BATS_FILE_TMPDIR/w" || return 1; }

# small ROUTERS SEEDS STEPS OUT: a comparison of tiny models
small() {
    "$MOEFW" compare default -t 1 -q --data text --set data.tokenizer=char --set model.layers=1 --set model.dim=32 \
        --set train.batch=2 --routers "$1" --seeds "$2" --steps "$3" -o "$4" >/dev/null
}

@test "results of the same data, steps and baseline form a table" {
    grep -q '^text, 40 steps: 5 routers in 2 results, baseline linear$' said
    grep -q '^text, 20 steps: 2 routers in 1 result, baseline linear$' said
    run "$MOEFW" board board --json
    # an untrained router is the last one for certain; the baseline has the difference 0
    [[ "$output" == *'{"router":"linear:train.lr=0.00001","result":"one.json","n":4,"best":3,"worst":3,'*'"verdict":"worse"}'* ]]
    [[ "$output" == *'{"router":"linear","result":"deep/two.json","n":3,"best":1,"worst":2,'*'"diff":0,'* ]]
    [[ "$output" == *'"refused":1}' ]]
}

@test "marks tell what was repeated; a changed file is refused, others are not results" {
    grep -qE '^  one.json: same bits \(2 runs, 2 whole\); (fresh seeds agree|FRESH SEEDS DISAGREE) \(1\)$' said
    grep -q '^  deep/two.json: checked only$' said
    grep -q '^refused: changed.json: its hash is wrong$' said
    ! grep -q 'other.json' said || false
}

@test "the page has the tables, ranks and marks" {
    grep -q '<h2[^>]*>text, 40 steps' board/board.html
    grep -q 'same bits (2 runs, 2 whole)' board/board.html
    grep -q 'data-c="rank">1–2</td>' board/board.html
    grep -q 'changed.json: its hash is wrong' board/board.html
    "$MOEFW" board board -o page.html >/dev/null
    cmp page.html board/board.html
    echo mine >notes.html
    run "$MOEFW" board board -o notes.html
    [ "$status" -eq 2 ]
    [ "$(cat notes.html)" = mine ]
}

@test "the filter shows the rows with every word, without network and without a server" {
    grep -q '<div class="filter" hidden data-words="same bits|' board/board.html
    CHROMIUM=$(command -v chromium || command -v chromium-browser || true)
    [ -n "$CHROMIUM" ] || skip "Chromium is not installed (package: chromium)"
    # rows WORDS: the routers that are shown, and what the page says of them
    rows() {
        HOME=$PWD "$CHROMIUM" --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/chromium" --dump-dom \
            "file://$PWD/board/board.html#rows=$1" 2>/dev/null >dom
        grep -E '^<tr( style="")?><td' dom | sed 's/.*<td class="h">//; s/<.*//' >routers
        grep -o '<output>[^<]*' dom | sed 's/<output>//'
    }
    [ "$(rows mlp)" = "2 of 7 rows" ]
    [ "$(sort -u routers)" = mlp ]
    [ "$(rows '%22same%20bits%22%20-hash')" = "2 of 7 rows" ]
    [ "$(grep -c linear routers)" -eq 2 ]
    [ "$(rows '%22checked%20only%22')" = "4 of 7 rows" ]
}

@test "a folder without results, and one that does not exist" {
    mkdir -p empty
    run "$MOEFW" board empty
    [ "$status" -eq 3 ]
    [[ "$output" == *"empty: expected results of moefw compare, found none"* ]]
    cp board/changed.json empty
    run "$MOEFW" board empty
    [[ "$status" -eq 3 && "$output" == *"refused: changed.json: its hash is wrong"* ]]
    run "$MOEFW" board nowhere
    [ "$status" -ne 0 ]
    [[ "$output" == *"nowhere"* ]]
}

@test "the board of our own routers: three tables, their winners, what was verified" {
    "$MOEFW" board "$srcdir/share/board" -o own.html >own
    ! grep -q '^refused' own || false
    # table NAME: its lines
    table() { awk -v name="$1" 'index($0, name) == 1 { on = 1; next } /^[^ ]/ { on = 0 } on' own; }
    table 'data that moefw makes, 400 steps: 7 routers in 1 result, baseline linear' >topics
    table 'tinyshakespeare.txt, 400 steps: 6 routers in 1 result, baseline linear' >characters
    table 'test.txt' >wikitext
    better() { grep ' better$' "$1" | awk '{ print $2 }' | paste -sd' '; }
    [ "$(better topics)" = oracle ]
    [ "$(better characters)" = "noisy_topk top_p" ]
    [ "$(better wikitext)" = "" ]
    ! grep -q ' worse$' own || false
    [ "$(awk 'NR == 1 { print $2 }' wikitext)" = top_p ]
    [ "$(grep -c 'same bits (2 runs, 2 whole)' own)" -eq 3 ]
    [ "$(grep -c '<h2[^>]*>.*, 400 steps' own.html)" -eq 3 ]
    grep -q '<td[^>]*>noisy_topk</td>' own.html
    # whoever has no data can at least check the files
    "$MOEFW" verify "$srcdir/share/board/topics.json" --seeds 0 -o own-checked -q | grep -q 'CHECKED: the file and its table'
}
