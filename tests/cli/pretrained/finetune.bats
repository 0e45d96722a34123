# Training from the configuration that import, swap and quantize write: it is their model that is trained.

bats_require_minimum_version 1.5.0

setup_file() {
    export OMP_WAIT_POLICY=passive XDG_CONFIG_HOME="$BATS_FILE_TMPDIR"
    cd "$BATS_FILE_TMPDIR" || exit 1
    yes 'one two three four five six seven' | head -n 3000 >text.txt
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o imported -q -t 1 >&2
    "$MOEFW" import "$srcdir/tests/golden/pretrained/gpt2/hf" -o gpt2 -q -t 1 >&2
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
}

# begins CONFIG OUT WEIGHTS: a training whose rate is 0 says so in its first line, and ends with the loss of RUN
begins() {
    run --separate-stderr "$MOEFW" train "$1" --data text.txt --out "$2" -t 1 --steps 2 --set train.lr=0 --set train.eval_batches=2
    [ "$status" -eq 0 ] || { echo "$stderr"; return 1; }
    [[ "${stderr%%$'\n'*}" == *": weights: $3; "*" parameters, "* ]] || { echo "$stderr"; return 1; }
}

# loss RUN: what eval says, to a part in a thousand: weights in files and copies of them differ in rounding
loss() {
    "$MOEFW" eval "$1" --data text.txt --json -t 1 -q | sed -nE 's/.*"loss":([0-9]+\.[0-9]{3}).*/\1/p' | grep .
}

@test "the configuration of an import trains the imported model" {
    begins imported/config.ini one "of imported, step 0"
    [ "$(loss one)" = "$(loss imported)" ]
    cmp imported/tokenizer.json one/tokenizer.json
    grep -qx "tokenizer = $BATS_FILE_TMPDIR/imported/tokenizer.json" imported/config.ini
    grep -qx 'lr = 1e-05' imported/config.ini
    grep -qx 'dropout = 0' imported/config.ini
    grep -qx 'dropout = 0.1' gpt2/config.ini # resid_pdrop, absent in its config.json
    begins gpt2/config.ini two "of gpt2, step 0"
    [ "$(loss two)" = "$(loss gpt2)" ]
    # drawn weights are trained only if this is asked for, and said
    run --separate-stderr "$MOEFW" train imported/config.ini --data text.txt --out drawn -t 1 --steps 2 --set train.from=
    [[ "${stderr%%$'\n'*}" == *": weights: drawn; "* ]]
    [ "$(loss drawn)" != "$(loss imported)" ]
    # a run that was trained goes on from its own step
    run --separate-stderr "$MOEFW" train one --resume -t 1 --steps 3
    [[ "$stderr" == *": weights: of one, step 2; "* ]] || { echo "$stderr"; return 1; }
}

@test "export hf says that merged changes of adapters are rounded, and what keeps them" {
    "$MOEFW" train imported/config.ini --data text.txt -q -t 1 --steps 1 --out low_rank --set 'train.freeze=*' \
        --set adapter.lora.plugin=lora --set 'adapter.lora.at=attention.*' >&2
    run --separate-stderr "$MOEFW" export hf low_rank -o f32 --dtype f32
    [ "$status" -eq 0 ]
    [[ "$stderr" != *"rounded"* ]]
    run --separate-stderr "$MOEFW" export hf low_rank -o bf16 --dtype bf16
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"the changes of adapters are merged into "*" tensors, which are rounded to BF16: "*"--dtype f32 keeps it"* ]]
    run --separate-stderr "$MOEFW" export hf low_rank -o plain --dtype bf16 --unmerged
    [[ "$stderr" != *"rounded"* ]]
}

@test "an import cannot be resumed or repeated: the message names the command that trains it" {
    for words in '' --resume; do
        run "$MOEFW" train imported $words
        [ "$status" -eq 2 ]
        [[ "$output" == *"not trained yet"*": moefw train imported/config.ini --data FILE" ]] || { echo "$output"; return 1; }
    done
    begins imported/config.ini three "of imported, step 0"
    run "$MOEFW" train three
    [ "$status" -eq 2 ]
    [[ "$output" == *"moefw train three --resume"*"--set train.from=three" ]]
}

@test "swap, quantize and adapters: their weights, not those that they came from" {
    "$MOEFW" swap imported --router mlp --match 3 --data text.txt -o swapped -q -t 1
    begins swapped/config.ini four "of swapped, step 0"
    [ "$(loss four)" = "$(loss swapped)" ]
    "$MOEFW" quantize imported -o four_bits --group 8 --batches 1 -q -t 1
    begins four_bits/config.ini five "of four_bits, step 0"
    [ "$(loss five)" = "$(loss four_bits)" ]
    [ "$(loss five)" != "$(loss imported)" ]
    "$MOEFW" import "$srcdir/tests/golden/pretrained/peft/corrected" --onto imported -o adapted -q -t 1
    grep -qx 'lr = 0.0002' adapted/config.ini
    begins adapted/config.ini six "of adapted, step 0"
    [ "$(loss six)" = "$(loss adapted)" ]
    [ "$(loss six)" != "$(loss imported)" ]
}

@test "compare with an import's configuration begins with its weights, and says so" {
    run --separate-stderr "$MOEFW" compare imported/config.ini --routers linear --data text.txt --seeds 1 --steps 1 \
        --set train.lr=0 --set train.eval_batches=2 -t 1 --out compared
    [ "$status" -eq 0 ]
    [[ "${stderr%%$'\n'*}" == "1 routers x 1 seeds, weights: of $BATS_FILE_TMPDIR/imported, baseline linear; "* ]] ||
        { echo "$stderr"; return 1; }
    [ "$(loss compared/linear/seed-1)" = "$(loss imported)" ]
}
