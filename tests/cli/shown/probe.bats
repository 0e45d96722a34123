# moefw probe, and changes of routing in generate -i: known truths of the oracle, documents, draws, refusals.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || return 1
    small=(--set model.layers=1 --set model.dim=32 --set model.heads=2 --set model.seq=64 --set expert.hidden=32 --set train.batch=8 --set train.eval_context=0 --set train.lr=3e-3 -t 1 -q)
    "$MOEFW" train default "${small[@]}" --set router.plugin=oracle --set moe.top_k=1 --set train.steps=150 -o oracle
    "$MOEFW" train default "${small[@]}" --set moe.experts=4 --set train.steps=150 -o linear
}
setup() { cd "$BATS_FILE_TMPDIR" || return 1; }

# rows FILE: NAME LABEL MEAN STDERR of each row of a result, with "all" for all tokens
rows() {
    tr '{' '\n' <"$1" | awk '
        /"name":/ { match($0, /"name":"[^"]*"/); row = substr($0, RSTART + 8, RLENGTH - 9) }
        /"label":/ { match($0, /"label":[0-9]+/); label = substr($0, RSTART + 8, RLENGTH - 8) }
        /^"mean":/ && row != "" { split($0, v, /[:,]/); print row, (label == "" ? "all" : label), v[2], v[4]; label = "" }' |
        sed 's/ sd / /; s/ +0 / /'
}

@test "the removal of a topic's expert costs exactly that topic" {
    "$MOEFW" probe oracle --how drop --remove all --by label --batches 0 -t 1 -q --json >out
    rows out >list
    [ "$(grep -c ' all ' list)" -eq 8 ]
    # label l uses expert l alone: no other label has another bit
    awk '$2 != "all" { split($1, at, "."); if (at[2] == $2 ? $3 <= 4 * $4 : $3 != 0 || $4 != 0) { print; bad = 1 } n++ } END { exit bad || n != 64 }' list
    run "$MOEFW" probe oracle --how drop --remove 0.3 --by label --batches 0 --margin 0.001 -t 1 -q
    [ "$status" -eq 0 ]
    [[ "$output" == *"removal (drop): the expert's output is 0, the other gates stay"* ]]
    [[ "$output" == *"matter: 1 of 1: 0.3 (+"* ]]
    [[ "$output" == *" matters; for 3"$'\n'* ]]
    # exchanged: both topics get the other's expert
    "$MOEFW" probe oracle --exchange 0.1-2 --by label --batches 0 -t 1 -q --json >out
    rows out | awk '$2 != "all" && ($2 == 1 || $2 == 2 ? $3 <= 4 * $4 : $3 != 0) { print; bad = 1 } END { exit bad }'
    run "$MOEFW" probe oracle --batches 1 -t 1 -q
    [ "$status" -eq 2 ]
    [[ "$output" == *"layer 0: router oracle selects experts by itself, not by scores that core reads; "*"--how drop"* ]]
}

@test "the loss without a change is that of eval, and no bias is no change" {
    "$MOEFW" eval linear -t 1 -q --json | grep -o '"task_loss":[0-9.]*' | cut -d: -f2 >eval
    "$MOEFW" probe linear --bias 0 --batches 0 -t 1 -q --json >out
    grep -o '"loss":{"mean":[0-9.]*' out | cut -d: -f3 >probe
    paste eval probe | awk '{ d = $1 - $2; exit !(d < 1e-5 && d > -1e-5) }'
    rows out >list
    [ "$(wc -l <list)" -eq 4 ]
    awk '$3 != 0 || $4 != 0 { print; bad = 1 } END { exit bad }' list
}

@test "two draws of batches give the same table within their intervals" {
    for draw in 1 2; do
        "$MOEFW" probe linear --batches 24 --draw $draw -t 1 -q --json >out
        rows out >draw$draw
    done
    [ "$(wc -l <draw1)" -eq 4 ]
    [ "$(cat draw1)" != "$(cat draw2)" ]
    # 3.3 standard errors: 1 in 1,000 for each row, if the draws were independent
    paste -d ' ' draw1 draw2 | awk '{ d = $3 - $7; if (d < 0) d = -d; if (d > 3.3 * sqrt($4 ^ 2 + $8 ^ 2)) { print; bad = 1 } } END { exit bad }'
}

@test "documents are the clusters where the text has documents" {
    for i in {1..24}; do echo "{\"text\": \"the old king leads her queen near our keep. the new road leads to our keep. number $i.\"}"; done | tr -d 0-9 >documents.jsonl
    run --separate-stderr "$MOEFW" probe linear --data documents.jsonl --remove 0.1 -t 1 -q
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "val of documents.jsonl after 150 steps: "*" in 24 documents" ]] # each in two examples
    head -n 3 documents.jsonl >three.jsonl
    run --separate-stderr "$MOEFW" probe linear --data three.jsonl --remove 0.1 -t 1
    [[ "$stderr" == *"only 3 documents: intervals over fewer than 20 are too short"* ]]
}

@test "wrong words are refused with what there is" {
    while IFS='|' read -r words said; do
        # shellcheck disable=SC2086
        run "$MOEFW" probe linear --batches 1 -t 1 -q $words
        [ "$status" -eq 2 ] || { echo "$words: $status $output"; return 1; }
        [[ "$output" == *"$said"* ]] || { echo "$words: $output"; return 1; }
    done <<'EOF'
--remove 0.4|0.4: expected experts 0 to 3 of layer 0
--remove 3|expected LAYER.EXPERT, such as 0.3, found '3'
--remove 2.0|expected a layer with experts (0), found layer 2
--among 0.1|0.1 leaves 1 of 4 experts; expected at least 2, the number for each token
--more 3|5 of its 4 experts for each token; expected 1 to 4
--exchange all --how drop|--how belongs to --remove
EOF
    run "$MOEFW" probe nowhere -q
    [ "$status" -eq 3 ]
    # a page that is there is replaced on request; another file only by --force
    "$MOEFW" probe linear --among 0.0+1 --batches 1 -t 1 -q --report page.html
    grep -q 'moefw probe linear --among 0.0+1 --step 150 --split val --batches 1 --draw 1 --margin 0.005' page.html
    echo mine >page.html
    run "$MOEFW" probe linear --batches 1 -t 1 -q --report page.html
    [ "$status" -eq 2 ]
    "$MOEFW" probe linear --batches 1 -t 1 -q --report page.html --force
    grep -q '</html>' page.html
}

@test "a conversation steers, measures and takes back" {
    talk() { printf '%s\n' "$@" exit | "$MOEFW" generate linear -i -n 12 --temperature 0 -t 1 -q 2>&1; }
    talk 'the old king' >plain
    talk '/ban 0.2' /undo 'the old king' | grep -v 'taken back\|^ban\|no change' | sed 's/^> > /> /' >undone
    [ "$(tail -n 1 plain | tr -d '> ')" = "$(tail -n 1 undone | tr -d '> ')" ]
    talk 'the old king' '/ban 0.2' /probe '/bias 0.1 +0.5' /route '/force 0.1+3' /changes /undo /undo /undo /undo >out
    grep -q 'loss of the last [0-9]* tokens: [0-9.]* without changes, [0-9.]* with them: [+-][0-9.]* nats/token' out
    [ "$(grep 'share of assignments by expert' out | awk '{ print $(NF - 1) }')" = 0.00 ] # expert 2
    [ "$(grep -c 'taken back: ' out)" -eq 3 ]
    grep -q 'there is no change that could be taken back' out
    talk '/force 0.1' '/ban 0.0' '/ban 0.1' '/ban 0.2' '/ban 7.0' >out
    grep -q '0.1 leaves 1 of 4 experts; expected at least 2' out
    grep -q 'together the changes leave 1 of 4 experts; expected at least 2' out
    grep -q '7.0: expected a layer with experts (0), found layer 7' out
}
