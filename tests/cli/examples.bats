# Files of labelled sentences and pairs with unusual content: either they are read correctly, or one
# clear error names file and line and nothing is created.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    for i in 1 2 3 4 5 6 7 8; do
        printf 'a fine film %s\t1\na dull film %s\t0\n' $i $i
    done >sst.tsv
    {
        printf 'gold_label\tsentence1\tsentence2\n'
        for i in 1 2 3 4 5 6; do
            printf 'neutral\tA man eats %s.\tA man sings.\n' $i
            printf 'entailment\tA dog runs %s.\tAn animal moves.\n' $i
            printf 'contradiction\tA cat sleeps %s.\tNo cat is here.\n' $i
        done
    } >nli.tsv
}

# trains FILE WORDS...: a few steps of a small model, as run
trains() {
    file=$1
    shift
    rm -rf run
    "$MOEFW" train tagat-balanced -q -t 1 --out run --data "$file" --set data.val_path="$file" \
        --set model.dim=8 --set model.seq=16 --set model.vocab=auto --set train.batch=4 \
        --set train.epochs=1 "$@"
}

# refused FILE WORDS...: with exit status 3, one line that holds the words, and no run
refused() {
    file=$1
    run trains "$file"
    [ "$status" -eq 3 ]
    [ "${#lines[@]}" -eq 1 ]
    shift
    for word; do
        [[ "$output" == *"$word"* ]] || { echo "$output"; return 1; }
    done
    [ ! -e run ]
}

# same ONE OTHER: both files give the same corpus
same() {
    trains "$1"
    mv run one
    trains "$2"
    cmp "one/ckpt/$(cat one/ckpt/latest)/model.safetensors" \
        "run/ckpt/$(cat run/ckpt/latest)/model.safetensors"
    rm -rf one
}

@test "a missing column" {
    trains nli.tsv
    awk 'NR == 4 { print "neutral\tA man eats."; next } { print }' nli.tsv >bad.tsv
    refused bad.tsv "bad.tsv:4: 2 columns: expected 3"
    sed '1s/gold_label/verdict/' nli.tsv >bad.tsv
    refused bad.tsv "bad.tsv:1:" "names no label" "gold_label"
    awk 'NR == 3 { print "a fine film"; next } { print }' sst.tsv >bad.tsv
    refused bad.tsv "bad.tsv:3: 1 column: expected 2"
}

@test "a wrong label" {
    awk -F'\t' 'BEGIN { OFS = FS } NR == 5 { $1 = "entailmet" } { print }' nli.tsv >bad.tsv
    refused bad.tsv "bad.tsv:5:" '"entailmet"' "one too many: expected at most 3"
    cp sst.tsv dev.tsv
    printf 'so so\t2\n' >>dev.tsv
    run trains sst.tsv --set data.val_path=dev.tsv
    [ "$status" -eq 3 ]
    [[ "$output" == *'dev.tsv:17: label "2" does not occur in the training data'* ]]
    # if one class more is possible, the error at least names a line that has it
    for i in 1 2 3 4 5 6 7 8 9 10; do cat sst.tsv; done >long.tsv
    printf 'so so\tl\n' >>long.tsv
    run trains long.tsv
    [ "$status" -eq 0 ]
    [[ "$output" == *'long.tsv:161: label "l": no other line of 161 has it'* ]]
    # "-", no agreement, skips its line
    awk -F'\t' 'BEGIN { OFS = FS } { print } NR == 5 { $1 = "-"; print }' nli.tsv >dash.tsv
    same nli.tsv dash.tsv
}

@test "an empty line, sentence or label" {
    awk '{ print } NR == 2 { print "" }' sst.tsv >bad.tsv
    refused bad.tsv "bad.tsv:3: the line is empty"
    awk -F'\t' 'BEGIN { OFS = FS } NR == 4 { $3 = "" } { print }' nli.tsv >bad.tsv
    refused bad.tsv "bad.tsv:4: the second sentence is empty"
    awk -F'\t' 'BEGIN { OFS = FS } NR == 4 { $2 = "" } { print }' sst.tsv >bad.tsv
    refused bad.tsv "bad.tsv:4: the label is empty"
    : >bad.tsv
    refused bad.tsv "bad.tsv: the file is empty"
}

@test "CRLF" {
    sed 's/$/\r/' nli.tsv >crlf.tsv
    same nli.tsv crlf.tsv
    sed 's/$/\r/' sst.tsv >crlf.tsv
    same sst.tsv crlf.tsv
}

@test "a byte order mark" {
    { printf '\357\273\277'; cat nli.tsv; } >bom.tsv
    same nli.tsv bom.tsv
    { printf '\357\273\277'; cat sst.tsv; } >bom.tsv
    same sst.tsv bom.tsv
}

@test "NUL" {
    { head -n 2 sst.tsv; printf 'a fi\0ne film\t1\n'; tail -n +4 sst.tsv; } >bad.tsv
    refused bad.tsv "bad.tsv:3: NUL at byte 4 of the line"
}

@test "bad UTF-8" {
    { head -n 3 nli.tsv; printf 'neutral\tA caf\351.\tIt is.\n'; } >bad.tsv
    refused bad.tsv "bad.tsv:4:" "0xe9" "not valid UTF-8"
    { cat sst.tsv; printf 'half a letter \303\t1\n'; } >bad.tsv
    refused bad.tsv "bad.tsv:17:" "0xc3" "not valid UTF-8"
}

@test "a line of 1 MB" {
    { cat sst.tsv; awk 'BEGIN { for (i = 0; i < 250000; i++) printf "abc "; print "\t1" }'; } >long.tsv
    [ "$(wc -c <long.tsv)" -gt 1000000 ]
    trains long.tsv
    { cat sst.tsv; awk 'BEGIN { for (i = 0; i < 250000; i++) printf "abcd"; print "\t1" }'; } >long.tsv
    trains long.tsv # one word
}

@test "quote marks are characters" {
    { cat sst.tsv; printf '"a ""fine"" film\t1\n"\t0\n'; } >quotes.tsv
    trains quotes.tsv
    [[ "$("$MOEFW" data info quotes.tsv --json)" == *'"documents":18'* ]]
}

@test "no newline at the end" {
    printf %s "$(cat nli.tsv)" >cut.tsv
    [ "$(tail -c 1 cut.tsv)" != "" ]
    same nli.tsv cut.tsv
    printf %s "$(cat sst.tsv)" >cut.tsv
    same sst.tsv cut.tsv
}
