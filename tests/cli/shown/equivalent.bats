# compare --equivalent: verdicts about a margin, in the table, the files and the page; --format.

bats_require_minimum_version 1.5.0
setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export OMP_WAIT_POLICY=passive
    mkdir -p "$BATS_FILE_TMPDIR/work"
    cd "$BATS_FILE_TMPDIR/work" || return 1
    small --routers linear,linear:z=1,linear:train.lr=0.00001 --seeds 3 --steps 30 --equivalent .02nats --out wide -q >wide.txt
    small --routers linear,hash --seeds 3 --steps 2 --out plain -q >plain.txt
}
setup() { cd "$BATS_FILE_TMPDIR/work" || return 1; }

# small ARGUMENT...: a comparison of tiny models; the router linear:z=1 is linear with the smallest change
small() {
    "$MOEFW" compare default -t 1 --set 'data.path=builtin:topics?bytes=40000' --set model.layers=1 \
        --set model.dim=32 --set train.batch=2 "${@/linear:z=1/linear:regularizer.z.weight=0.0010000001}"
}

@test "a twin is equal within the margin, an untrained router is worse by more than it" {
    grep -qE '^ +[12] linear:regularizer\.z\.+ +-?0\.0[0-9]+  \[[-+]0\.[0-9]+,[-+]0\.[0-9]+\] +equal ' wide.txt
    grep -qE '^ +3 linear:train.lr=0.00001 .*  worse +-$' wide.txt
    tr '\n' ' ' <wide.txt >line
    grep -q 'Verdicts are about the margin 0.02nats = 0.0[0-9]*bpb: equal is within it' line
    json=$(cat wide/comparison.json)
    [[ "$json" == *'"equivalent":"0.02nats","margin":0.02,'* ]]
    [[ "$json" == *'"verdict":"equal",'*'"difference":"'*'"p_equal":'*'"equal_range":['*'"seeds_equal":3'* ]]
    [[ "$json" == *'"router":"linear:train.lr=0.00001"'*'"verdict":"worse",'*'"difference":"worse"'* ]]
    # without a margin nothing of this appears
    run "$MOEFW" compare wide --seeds 3 -t 1 --json -q
    [[ "$output" == *'"equivalent":"0.02nats"'* ]] # it is part of the plan
    ! grep -qE '"(margin|equivalent|p_equal|difference)"' plain/comparison.json || false
    ! grep -q 'interval  ' plain.txt || false
}

@test "the page shows the intervals, the verdicts and the margin" {
    grep -q '<h2[^>]*>Equal or not' wide/report.html
    grep -q 'equal within 0.02</td>' wide/report.html
    grep -q 'Differences from linear and the margin' wide/report.html
    "$MOEFW" report plain -o plain.html -q
    ! grep -q 'Equal or not' plain.html || false
}

@test "the margin is fixed with the first result" {
    run "$MOEFW" compare wide --seeds 4 --equivalent .03nats -t 1 -q
    [ "$status" -eq 2 ]
    [[ "$output" == *"--equivalent: expected it before the first result; wide has shown results with 3 seeds, when the plan had 0.02nats"* ]]
    run "$MOEFW" compare plain --seeds 3 --equivalent 1 -t 1 -q
    [[ "$status" -eq 2 && "$output" == *"the plan had no margin"* ]]
    "$MOEFW" compare wide --seeds 3 --equivalent 0.02nats -t 1 -q --json >/dev/null
    sed -i 's/"equivalent":"1nats"/"equivalent":1/; s/"equivalent":"0.02nats"/"equivalent":"two"/' wide/plan.json
    run "$MOEFW" compare wide --seeds 3 -t 1 -q
    [ "$status" -eq 3 ]
    [[ "$output" == *"plan.json: equivalent: expected a margin such as .02nats"* ]]
    sed -i 's/"equivalent":"two"/"equivalent":"0.02nats"/' wide/plan.json
}

@test "margins that are no margins, and units that do not fit the task" {
    for wrong in 0 -1 .02bits 10%compute; do
        run small --routers linear,hash --seeds 1 --steps 1 --out none "--equivalent=$wrong" -q
        [ "$status" -eq 2 ]
        [[ "$output" == *"--equivalent: expected a number above 0"*"found '$wrong'"* ]]
    done
    run small --routers linear,hash --seeds 1 --steps 1 --out none --equivalent 1points -q
    [ "$status" -eq 2 ]
    [[ "$output" == *"this task is compared by its loss; expected a number with nats or bpb, found 1points"* ]]
    [ ! -e none ]
}

@test "a margin that cannot be converted gives no verdict, and status 2" {
    printf 'one two three four one two three four %.0s' {1..300} >text
    "$MOEFW" tokenize train bpe_bytes text --vocab-size=270 -o merges.json -q
    run --separate-stderr "$MOEFW" compare default -t 1 --data text --set model.layers=1 --set model.dim=32 --set train.batch=2 \
        --routers linear,linear:data.tokenizer=merges.json --seeds 3 --steps 2 --equivalent .5nats --out mixed
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--equivalent: this margin cannot be converted into bits_per_byte"* ]]
    [[ "$output" == *"No verdict about the margin 0.5nats"* ]]
    grep -q '"verdict":"not shown"' mixed/comparison.json
}

@test "what is said before the runs: the deviation with which equality is shown" {
    run --separate-stderr small --routers linear,hash --seeds 8 --steps 1 --equivalent 0.115 --out said
    [[ "$stderr" == *"equality within 0.115 is shown, in 4 of 5 comparisons of equal routers, if that deviation is at most 0.09"* ]]
}

@test "tables for a paper: LaTeX, Markdown and CSV hold the numbers of comparison.json" {
    mean=$(grep -o '"router":"linear".*' wide/comparison.json | grep -o '"mean":[0-9.]*' | head -n 1 | cut -d: -f2)
    short=$(printf '%.4f' "$mean")
    "$MOEFW" compare wide --seeds 3 -t 1 -q --format latex >wide.tex
    grep -q '^\\begin{tabular}' wide.tex
    grep -q "^linear & $short([0-9]*) & {--} & {--} & baseline & 3" wide.tex
    grep -q '^linear:regularizer.z.weight=0.0010000001 & .* & equal within 0.02 & 3' wide.tex
    grep -q 'caption{.*3 seeds.*Holm.*level 0.05.*margin 0.02' wide.tex
    "$MOEFW" compare wide --seeds 3 -t 1 -q --format md >wide.md
    grep -q "^| linear | $short ± 0\.[0-9]* |  |  | baseline | 3 |" wide.md
    "$MOEFW" compare wide --seeds 3 -t 1 -q --format csv >wide.csv
    [ "$(head -n 1 wide.csv | tr ',' '\n' | wc -l)" -eq 19 ]
    [ "$(awk -F, '{ print NF }' wide.csv | sort -u)" = 19 ]
    awk -F, -v mean="$mean" '$1 == "linear" { d = $4 - mean; if (d < 0) d = -d; found = d < 1e-8 * mean } END { exit !found }' wide.csv
    # names with characters that mean something there
    "$MOEFW" compare plain --seeds 3 -t 1 -q --format latex | grep -q '^hash & '
    small --routers linear,noisy_topk --seeds 1 --steps 1 --out names -q >/dev/null
    "$MOEFW" compare names --seeds 1 -t 1 -q --format latex | grep -q '^noisy\\_topk & [0-9.]* & '
    "$MOEFW" compare names --seeds 1 -t 1 -q --format md | grep -q '^| noisy\\_topk | [0-9.]* | '
}
