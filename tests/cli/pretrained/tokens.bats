# moefw eval --tokens, --lines: files of tokens, of which each must fit the model, and what comes out.

bats_require_minimum_version 1.5.0

setup_file() {
    export OMP_WAIT_POLICY=passive XDG_CONFIG_HOME="$BATS_FILE_TMPDIR"
    cd "$BATS_FILE_TMPDIR" || exit 1
    printf 'a fine film\tgood\na dull plot\tbad\nso fine it is\tgood\nthe plot is dull\tbad\n' >t.tsv
    small=(-q -t 1 --steps 2 --set train.epochs=0 --set model.dim=16 --set model.layers=1 --set model.heads=2
        --set model.seq=16 --set train.batch=2 --set train.eval_every=0 --set train.eval_batches=1
        --set train.final_batches=1 --set report.enabled=no --set train.eval_context=0)
    "$MOEFW" train default "${small[@]}" --set expert.hidden=16 --set moe.experts=4 --set data.tokenizer=byte \
        --set data.path='builtin:topics?bytes=20000' --out lm >&2
    "$MOEFW" train vanilla-quick "${small[@]}" --data t.tsv --set data.val_path=t.tsv --set model.vocab=auto \
        --set model.classes=auto --set model.token_types=2 --out classes >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
    ln -s "$BATS_FILE_TMPDIR/lm" lm
    ln -s "$BATS_FILE_TMPDIR/classes" classes
}

# bytes NUMBER...: each as eight bytes, the lowest first
bytes() {
    local v i
    for v; do
        for i in 0 8 16 24 32 40 48 56; do printf "\\x$(printf %02x $((v >> i & 255)))"; done
    done
}

# tensors FILE "NAME SHAPE NUMBER..."...: a safetensors file of I64; SHAPE as 2,3
tensors() {
    local file=$1 header='' at=0 one name shape n
    shift
    : >values
    for one; do
        read -r name shape n <<<"$one"
        # shellcheck disable=SC2086 # numbers
        bytes $n >>values
        header+="${header:+,}\"$name\":{\"dtype\":\"I64\",\"shape\":[$shape],\"data_offsets\":[$at,$(wc -c <values)]}"
        at=$(wc -c <values)
    done
    header="{$header}"
    { bytes ${#header}; printf %s "$header"; cat values; } >"$file"
}

# refused RUN TEXT: the file is refused with one line that has the text, and nothing is saved
refused() {
    run "$MOEFW" eval "$1" --tokens file --save new
    [ "$status" -eq 3 ] && [ "${#lines[@]}" -eq 1 ] && [[ "$output" == *"file: $2"* ]] && [ ! -e new ] && return
    echo "status $status, expected 3 and: $2"
    echo "$output"
    return 1
}

ids="input_ids 2,3 1 2 3 4 5 6"

@test "what does not fit input_ids is refused, and names the tensor" {
    refused lm "there is no such file"
    tensors file "labels 2,3 1 2 3 4 5 6"
    refused lm "expected a tensor 'input_ids'"
    tensors file "input_ids 6 1 2 3 4 5 6"
    refused lm "tensor 'input_ids': expected I64 of the shape of input_ids"
    tensors file "input_ids 0,3"
    refused lm "tensor 'input_ids': expected 1 to 16777216 elements"
    tensors file "input_ids 1,17 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"
    refused lm "input_ids: expected at most 16 positions, found 17"
    tensors file "input_ids 1,2 1 256"
    refused lm "input_ids: expected ids from 0 to 255, found 256"
    tensors file "input_ids 1,2 -1 2"
    refused lm "input_ids: expected ids from 0 to 255, found -1"
    tensors file "$ids" "attention_mask 3,2 1 1 1 1 1 0"
    refused lm "tensor 'attention_mask': expected I64 of the shape of input_ids"
}

@test "labels of a language model: -100 or ids; of a classifier: one class each" {
    tensors file "$ids" "labels 2,3 1 2 256 4 5 6"
    refused lm "labels: expected -100 or ids from 0 to 255, found 256"
    tensors file "$ids" "labels 2,3 1 2 3 4 5 -2"
    refused lm "labels: expected -100 or ids from 0 to 255, found -2"
    tensors file "$ids" "labels 2,3 0 0 0 0 0 0"
    refused classes "tensor 'labels': expected I64 [2]"
    tensors file "$ids" "labels 2 0 2"
    refused classes "labels: expected -100 or 0 to 1, found 2"
    tensors file "$ids" "labels 2 -1 1"
    refused classes "labels: expected -100 or 0 to 1, found -1"
    tensors file "$ids" "token_type_ids 2,3 0 0 0 1 1 2"
    refused classes "token_type_ids: expected 0 to 1, found 2"
}

# logits FILE: name and shape of the logits in it
logits() {
    head -c 4000 "$1" | grep -aoE '"logits":\{"dtype":"F32","shape":\[[0-9,]*\]'
}

@test "logits of a classifier are [B,classes]; its gradients are of the labels that count" {
    tensors file "$ids" "labels 2 1 0" "token_type_ids 2,3 0 0 1 0 1 1"
    "$MOEFW" eval classes --tokens file --save new --gradients both | tee said
    [ "$(logits new)" = '"logits":{"dtype":"F32","shape":[2,2]' ]
    run -2 "$MOEFW" eval classes --tokens file --save new
    [[ "$output" == *"new: exists already; expected a new file, or --force to replace it" ]]
    tensors file "$ids" "labels 2 1 -100" "token_type_ids 2,3 0 0 1 0 1 1"
    "$MOEFW" eval classes --tokens file --gradients first | tee -a said
    tensors file "$ids" "labels 2 -100 0" "token_type_ids 2,3 0 0 1 0 1 1"
    "$MOEFW" eval classes --tokens file --gradients second | tee -a said
    # the loss of both is the mean of those of one and the other
    grep -oE '[0-9]+\.[0-9]+' said | paste -s -d ' ' | awk '{ off = $1 - ($2 + $3) / 2; exit !(NF == 3 && off * off < 1e-11) }'
    run ! cmp -s first second
    run ! cmp -s first both
    tensors file "$ids"
    run "$MOEFW" eval classes --tokens file --gradients none
    [ "$status" -eq 3 ]
    [[ "$output" == *"gradients need a language model or a classifier, and a "* ]]
    [ ! -e none ]
}

@test "the loss of the labels, as text and JSON; without labels there is none" {
    tensors file "$ids" "labels 2,3 1 2 3 4 5 6"
    run -0 "$MOEFW" eval lm --tokens file --gradients one
    loss=$(sed -n 's|^loss of the labels \([.0-9]*\) nats/token$|\1|p' <<<"$output")
    run -0 "$MOEFW" eval lm --tokens file --gradients two --json
    [[ "$output" =~ ^'{"loss":'([.0-9]+)'}'$ ]]
    [ "$(printf %.6f "${BASH_REMATCH[1]}")" = "$loss" ]
    tensors file "$ids"
    [ "$("$MOEFW" eval lm --tokens file --save three --json)" = '{"loss":null}' ]
    [ -z "$("$MOEFW" eval lm --tokens file --save four)" ]
}

@test "texts of --lines: padded to one length, which a file of tokens has, too" {
    printf 'fine film\ndull\tmore\n\nplot\n' >lines
    "$MOEFW" eval lm --lines lines --save all
    head -c 4000 all | grep -aq '"input_ids":{"dtype":"I64","shape":\[[34],9\]'
    "$MOEFW" eval lm --lines lines --count 1 --length 5 --save cut
    head -c 4000 cut | grep -aq '"input_ids":{"dtype":"I64","shape":\[1,5\]'
    "$MOEFW" eval lm --tokens cut --save again
    cmp cut again
    # one text has the token type 0, as tokens of a file without token_type_ids
    "$MOEFW" eval classes --lines lines --save all.classes
    "$MOEFW" eval classes --tokens all.classes --save again.classes
    cmp all.classes again.classes
}
