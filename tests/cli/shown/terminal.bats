# What people see on a terminal: lines that fit it, and progress while something takes long.

bats_require_minimum_version 1.5.0
setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
    export OMP_WAIT_POLICY=passive
    cd "$BATS_FILE_TMPDIR" || return 1
    "$MOEFW" train default -q -t 1 --steps 2 --set 'data.path=builtin:topics?bytes=40000' \
        --set model.layers=1 --set model.dim=16 --set train.batch=2 --out run >&2
}
setup() {
    cd "$BATS_FILE_TMPDIR" || return 1
    script --version >/dev/null 2>&1 || skip "no script(1)"
}

# on_terminal COMMAND: runs it on a terminal of 80 columns; its text is in the file `shown`
on_terminal() {
    TERM=xterm script -qec "stty cols 80; $1" /dev/null | tr -d '\r' | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' >shown
}

@test "lines are broken at blanks where a terminal ends, and are whole elsewhere" {
    for command in doctor "config check default" "eval run -t 1" "bench infer run -t 1 --repetitions 1" \
        "plugin info linear" "bench gemm -t 1 --repetitions 1" \
        "compare default -t 1 --steps 1 --set model.layers=1 --set model.dim=16 --set train.batch=2 --set train.eval_batches=1 --set train.final_batches=1 --routers linear,hash --seeds 3 -j 1 --out compared"; do
        on_terminal "'$MOEFW' $command"
        # a word has a line of its own if it is longer, as a path may be; bars are drawn over
        grep -v '^compare  ' shown | awk -v c="$command" '{ gsub(/[\200-\277]/, "") }
            length > 80 && $0 ~ /[^ ] +[^ ]/ { print c ": " $0; bad = 1 } END { exit bad }'
        [ -s shown ]
    done
    [ "$("$MOEFW" eval run -t 1 | grep -c '^  ')" -eq 0 ]
    [ "$("$MOEFW" config check default | head -n 1 | grep -c 'program and libraries$')" -eq 1 ]
    # COLUMNS is the width of a terminal, not of a file
    [ "$(COLUMNS=40 "$MOEFW" config check default | head -n 1 | grep -c 'program and libraries$')" -eq 1 ]
}

@test "bench routers has a bar on a terminal, and a table of 80 columns in a file" {
    small=(bench routers -t 1 --routers linear,hash --dim 16 --batch 1 --seq 8 --seeds 2 --repetitions 3)
    on_terminal "'$MOEFW' ${small[*]}"
    # 2 routers, each with 2 seeds and 4 times 3 passes that warm up and 3 repetitions
    grep -q '^bench  .*/52' shown
    grep -q '^hash ' shown
    run --separate-stderr "$MOEFW" "${small[@]}"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    awk 'length > 80 { exit 1 }' <<<"$output"
    [ "$(grep -c '^hash ' <<<"$output")" -ge 2 ]
    COLUMNS=200 "$MOEFW" "${small[@]}" | grep -q '^router .*params.*layer alone$'
}

@test "the speed of generate stands on a line of its own; a run that is done says so when it is resumed" {
    on_terminal "'$MOEFW' generate run -t 1 -p a -n 4 --seed 1"
    grep -qE '^4 tokens, [0-9.]+ tokens/s$' shown
    run --separate-stderr "$MOEFW" train run --resume -t 1
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"all of its steps are done: it is only validated again (--steps N trains it on)"* ]]
    [[ "$stderr" != *" 0 tokens/s"* ]]
}

@test "a table with the label first and no header: which column is taken as text is said" {
    for i in 1 2 3 4 5 6 7 8 9 10; do printf '%d\tthe film was good number %d\n' $((i % 2)) "$i"; done >first.tsv
    run --separate-stderr "$MOEFW" data info first.tsv
    [[ "$stderr" == *"first.tsv: column 1 is taken as text and column 2 as label, but the labels are longer; "*"label TAB sentence"* ]]
    { printf 'label\tsentence\n' && cat first.tsv; } >named.tsv
    run --separate-stderr "$MOEFW" data info named.tsv
    [ -z "$stderr" ]
    [[ "$output" == *"class 0 "* ]]
}
