# Traces: recorded, replayed by other kernels and routers, and compared.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" OMP_WAIT_POLICY=passive
    train run --set trace.every=2
    # Start weights of a millionth: probabilities that differ only in their last bits.
    train ties --set router.init_std=1e-6 --set train.lr=1e-9
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
}

train() {
    dir=$1
    shift
    "$MOEFW" train -q -t 1 --out "$dir" --set data.path='builtin:topics?bytes=40000' \
        --set model.layers=2 --set model.dim=32 --set model.seq=64 --set expert.hidden=32 \
        --set train.batch=2 --set train.eval_context=0 --set train.eval_every=2 \
        --set train.eval_batches=3 --set train.save_every=2 --steps 4 "$@" >/dev/null
}

# number KEY: its first value in the JSON in $output
number() {
    printf '%s\n' "$output" | grep -oE "\"$1\":[^,}]*" | head -n 1 | cut -d: -f2
}

@test "record writes one file and names it; a second record has the same bytes" {
    [ "$("$MOEFW" trace record run --batches 4 -o a.trace)" = a.trace ]
    [ -s a.trace ]
    [ ! -e a.trace.tmp ]
    cp a.trace before
    "$MOEFW" trace record run --batches 4 -o a.trace --force -q
    cmp a.trace before
    run "$MOEFW" trace record run --batches 1
    [ "$status" -eq 2 ] # training has recorded it
    [[ "$output" == *"run/trace/step-4.safetensors: exists already"* ]]
    [ "$("$MOEFW" trace record run --batches 1 --force)" = run/trace/step-4.safetensors ]
}

@test "training records every n-th evaluation batch of each evaluation" {
    train every --set trace.every=2
    [ -s every/trace/step-2.safetensors ]
    [ -s every/trace/step-4.safetensors ]
    run "$MOEFW" trace replay every/trace/step-2.safetensors every --json
    [ "$status" -eq 0 ]
    [ "$(number differ)" -eq 0 ] # the trace is of the right step
    # Batches 0 and 2 of three.
    [ "$(number tokens)" -eq 256 ]
    train never
    [ ! -e never/trace ]
}

@test "replay by the same program: the same bits" {
    "$MOEFW" trace record run --batches 4 -o a.trace --force -q
    for how in "" --forced; do
        # shellcheck disable=SC2086
        run "$MOEFW" trace replay a.trace run $how --json
        [ "$status" -eq 0 ]
        [ "$(number differ)" -eq 0 ]
        [ "$(printf '%s' "$output" | grep -oE '"max_prob_diff_all":[^,]*' | sort -u)" = '"max_prob_diff_all":0' ]
    done
    "$MOEFW" trace replay a.trace run -o b.trace --force -q
    "$MOEFW" trace replay a.trace run --forced -t 2 -o c.trace --force -q
    run "$MOEFW" trace diff b.trace c.trace
    [ "$status" -eq 0 ]
    [[ "$output" == *"forced by a.trace"* ]]
    [[ "$output" == *"same: every token"* ]]
}

@test "a replay needs no data" {
    cp -r run away
    sed -i 's|^path = .*|path = nowhere.txt|' away/config.ini
    "$MOEFW" trace record run --batches 2 -o a2.trace --force -q
    "$MOEFW" trace replay a2.trace away
}

@test "cpu recorded, ref replayed: the same except for ties, which are listed" {
    "$MOEFW" trace record run --batches 4 -o a.trace --force -q
    "$MOEFW" trace record ties --batches 4 -o t.trace --force -q
    for run in "a.trace run" "t.trace ties"; do
        for how in "" --forced; do
            # shellcheck disable=SC2086
            MOEFW_KERNELS=ref run "$MOEFW" trace replay $run $how --json --list 0
            [ "$status" -eq 0 ] || { echo "$output"; return 1; }
            [ "$(number real)" -eq 0 ]
            [[ "$output" == *'"kernels":"ref"'* ]]
            listed=$(printf '%s' "$output" | sed 's/.*"partings"://' | grep -o '"why":"tie"' | wc -l)
            [ "$listed" -eq "$(number ties)" ]
            # Every listed gap is below 1e-5: 0, or with an exponent of -6 or less.
            printf '%s' "$output" | sed 's/.*"partings"://' | grep -oE '"gap":[^,]*' | cut -d: -f2 |
                awk '$1 >= 1e-5 { bad = 1 } END { exit bad }'
        done
        [ "$(number after)" -eq 0 ] # with forced choices, the last of the two, there are no consequences
    done
    # The second run must have such ties, otherwise this proves nothing.
    [ "$(number ties)" -gt 0 ]
    # What is no tie with a smaller tolerance is a difference.
    MOEFW_KERNELS=ref run "$MOEFW" trace replay t.trace ties --tolerance 0
    [ "$status" -eq 1 ]
    [[ "$output" == *"a real difference"* ]]
}

@test "other weights really differ, and the first difference is named" {
    "$MOEFW" trace record run --batches 4 -o a.trace --force -q
    train other --seed 77
    "$MOEFW" trace record other --batches 4 -o other.trace --force -q
    run "$MOEFW" trace diff a.trace other.trace
    [ "$status" -eq 1 ]
    [[ "$output" == *"they part first at"*"batch 0, layer 0, sequence 0, position 0"*"A chooses"*"B"*"gap"* ]]
    [[ "$output" == *"different:"* ]]
    run "$MOEFW" trace diff a.trace other.trace --json
    [ "$status" -eq 1 ]
    [ "$(number same)" = false ]
    [[ "$output" == '{'*'}' ]]
}

@test "traces that cannot be compared: the message names the difference" {
    "$MOEFW" trace record run --batches 4 -o a.trace --force -q
    "$MOEFW" trace record run --batches 3 -o short.trace --force -q
    "$MOEFW" trace record run --batches 4 --split train -o train.trace --force -q
    run "$MOEFW" trace diff a.trace short.trace
    [ "$status" -eq 3 ]
    [[ "$output" == *"numbers of batches: 4 and 3"* ]]
    run "$MOEFW" trace diff a.trace train.trace
    [ "$status" -eq 3 ]
    [[ "$output" == *"other tokens"* ]]
    run "$MOEFW" trace diff a.trace run/ckpt/step-4/model.safetensors
    [ "$status" -eq 3 ]
    [[ "$output" == *"no routing trace"* ]]
    run "$MOEFW" trace diff a.trace none
    [ "$status" -eq 3 ]
    head -c 3000 a.trace >cut.trace
    run "$MOEFW" trace replay cut.trace run
    [ "$status" -eq 3 ]
    train wide --set moe.experts=4
    run "$MOEFW" trace replay a.trace wide
    [ "$status" -eq 3 ]
    [[ "$output" == *"8 experts, the model 4"* ]]
    run "$MOEFW" trace record run --step 3
    [ "$status" -eq 3 ]
    "$MOEFW" trace record wide --batches 4 -o wide.trace --force -q
    train short --set model.seq=32
    "$MOEFW" trace record short --batches 4 -o seq.trace --force -q
    train rows --set train.batch=4
    "$MOEFW" trace record rows --batches 4 -o rows.trace --force -q
    train deep --set model.layers=3
    "$MOEFW" trace record deep --batches 4 -o deep.trace --force -q
    train second --set model.moe_every=2
    "$MOEFW" trace record second --batches 4 -o second.trace --force -q
    while read -r other what; do
        run "$MOEFW" trace diff a.trace "$other.trace"
        [ "$status" -eq 3 ]
        [[ "$output" == *"$what"* ]] || { echo "$other: $output"; return 1; }
    done <<'TXT'
wide numbers of experts: 8 and 4
seq tokens a sequence: 64 and 32
rows sequences a batch: 2 and 4
deep numbers of MoE layers: 2 and 3
second numbers of MoE layers: 2 and 1
TXT
    run "$MOEFW" trace record run -o .
    [ "$status" -eq 2 ]
    [[ "$output" == *"is a folder; expected a new file"* ]]
    train dense --set model.moe_every=0
    run "$MOEFW" trace record dense
    [ "$status" -eq 2 ]
    [[ "$output" == *"dense"* ]]
}

@test "replay into another router, on the activations of the recorded one" {
    "$MOEFW" trace record run --batches 2 -o a2.trace --force -q
    run "$MOEFW" trace replay a2.trace run --forced --router linear:temperature=2
    [ "$status" -eq 0 ] # the same weights: the order of scores is the same
    run "$MOEFW" trace replay a2.trace run --forced --router mlp --json
    [ "$status" -eq 1 ]
    [[ "$output" == *'"router":"mlp"'* ]]
    # The loss is that of the recorded choices and gates: the router was only evaluated.
    losses=$(printf '%s' "$output" | grep -oE '"task_loss":"[^"]*"' | uniq | wc -l)
    [ "$losses" -eq 1 ]
    "$MOEFW" trace replay a2.trace run --forced --router expert_choice -o e.trace --force -q || [ $? -eq 1 ]
    "$MOEFW" trace diff e.trace e.trace
    run "$MOEFW" trace replay a2.trace run --router mlpp
    [ "$status" -eq 2 ]
    [[ "$output" == *"'mlp'"* ]]
    run "$MOEFW" trace replay a2.trace run --router mlp:hiden=3
    [ "$status" -eq 2 ]
    [[ "$output" == *"'hidden'"* ]]
}

@test "routers that choose by themselves, capacity and reassignment are recorded and replayed" {
    train cap --set moe.capacity_factor=1 --set moe.overflow=reassign
    train experts --set router.plugin=expert_choice --set moe.force_causal=yes
    train relu --set router.plugin=relu
    train hash --set router.plugin=hash
    for dir in cap experts relu hash; do
        "$MOEFW" trace record "$dir" --batches 2 -o own.trace --force -q
        for how in "" --forced; do
            # shellcheck disable=SC2086
            run "$MOEFW" trace replay own.trace "$dir" $how --json
            [ "$status" -eq 0 ] || { echo "$dir $how: $output"; return 1; }
            [ "$(number differ)" -eq 0 ]
            [ "$(printf '%s' "$output" | grep -oE '"task_loss":"[^"]*"' | uniq | wc -l)" -eq 1 ]
        done
    done
}

@test "classification and masked tokens are recorded and replayed" {
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        printf 'the cat %d sat\t0\na dog and a %d bark\t1\n' "$i" "$i"
    done >pairs.tsv
    train classes --set data.path=pairs.tsv --set data.format=tsv --set model.task=classify
    train hidden --set model.task=mlm --set model.causal=no
    for dir in classes hidden; do
        "$MOEFW" trace record "$dir" --batches 2 -o task.trace --force -q
        run "$MOEFW" trace replay task.trace "$dir" --json
        [ "$status" -eq 0 ] || { echo "$dir: $output"; return 1; }
        [ "$(number differ)" -eq 0 ]
        [ "$(printf '%s' "$output" | grep -oE '"task_loss":"[0-9][^"]*"' | uniq | wc -l)" -eq 1 ]
        run "$MOEFW" trace replay task.trace run
        [ "$status" -eq 3 ]
    done
}

@test "regression and several tasks are recorded and replayed" {
    printf 'sentence\tlabel\tscore\tkind\n' >graded.tsv
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
        printf 'the cat %d sat\t0\t1.%d\ta\na dog and a %d bark\t1\t3\tb\n' $i $((i % 5)) $i
    done >>graded.tsv
    printf 'a cow\t1\t-\ta\na hen\t0\t2\t-\n' >>graded.tsv
    grep -v -e - graded.tsv >whole.tsv
    graded=(--set data.path=graded.tsv --set data.format=tsv --set train.batch=5)
    train number "${graded[@]}" --set model.task=regress --set data.label_column=score \
        --set data.path=whole.tsv
    train tasks "${graded[@]}" --set model.task=classify --set task.score.task=regress \
        --set task.kind.task=classify --set task.kind.classes=4
    train one "${graded[@]}" --set model.task=classify
    for dir in number tasks one; do
        "$MOEFW" trace record "$dir" --batches 3 -o "$dir.trace" --force -q
        for how in "" --forced; do
            run "$MOEFW" trace replay "$dir.trace" "$dir" $how --json
            [ "$status" -eq 0 ] || { echo "$dir: $output"; return 1; }
            [ "$(number differ)" -eq 0 ]
            [ "$(printf '%s' "$output" | grep -oE '"task_loss":"[0-9][^"]*"' | uniq | wc -l)" -eq 1 ]
        done
    done
    for pair in "number one" "tasks one" "one tasks" "one number" "tasks number" "number run"; do
        read -r from to <<<"$pair"
        run "$MOEFW" trace replay "$from.trace" "$to"
        [ "$status" -eq 3 ] || { echo "$pair: $output"; return 1; }
    done
    run "$MOEFW" trace replay one.trace tasks
    [[ "$output" == *"one.trace: task 1: no numbers or further classes in the trace; the model learns numbers"* ]]
}

@test "bench routers on recorded activations" {
    "$MOEFW" trace record run --batches 2 --activations -o act.trace --force -q
    # regularizers that cannot be loaded, and those that need an option, are skipped
    mkdir -p more/regularizers
    head -c 4000 "$builddir/plugins/regularizers/z_loss.so" >more/regularizers/torn.so
    sed -e 's/"z_loss"/"needy"/' -e 's/options, char,/options, int64_t,/' \
        -e 's/{MF_END_OPTIONS}/{MF_OPTION_INIT("given", "must be set", NULL, MF_OPT_BOOL, 0, 0, 0, 1, NULL), MF_END_OPTIONS}/' \
        "$srcdir/plugins/regularizers/z_loss.c" >needy.c
    ${CC:-cc} -std=gnu11 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -o more/regularizers/needy.so needy.c
    bench=(bench routers --routers "linear,mlp:hidden=8,hash,oracle" --seeds 2 --repetitions 0 --batch 2 --json)
    MOEFW_PLUGIN_PATH=$PWD/more run "$MOEFW" "${bench[@]}" --activations act.trace:1
    [ "$status" -eq 0 ]
    [[ "$output" == *'"router":"mlp:hidden=8"'*'"z_loss"'* ]] || { echo "$output"; return 1; }
    [[ "$output" != *needy* && "$output" != *torn* ]]
    [[ "$output" == *'"d_model":32'* ]]
    second=$output
    run "$MOEFW" "${bench[@]}" --activations act.trace
    [ "$status" -eq 0 ]
    [ "$output" != "$second" ]
    run "$MOEFW" "${bench[@]}" --activations act.trace:7
    [ "$status" -eq 3 ]
    [[ "$output" == *"of layer 7"*"0, 1"* ]]
    "$MOEFW" trace record run --batches 2 -o plain.trace --force -q
    run "$MOEFW" "${bench[@]}" --activations plain.trace
    [ "$status" -eq 3 ]
    [[ "$output" == *"--activations"* ]]
    run "$MOEFW" "${bench[@]}" --dim 64 --activations act.trace
    [ "$status" -eq 2 ]
}

@test "bench routers: experts that are copies of a dense block, and routers that learn first" {
    train block --set model.moe_every=0 --set model.ffn_hidden=48
    bench=(bench routers --dim 32 --experts 4 --batch 2 --seq 16 --seeds 2 --repetitions 0 --json -t 1)
    values() { printf '%s\n' "$output" | grep -oE "\"$1\":[^,}]*" | cut -d: -f2; }
    # gates sum to 1, so the choice among copies cannot change the output
    run "$MOEFW" "${bench[@]}" --routers linear,attention,hash --expert swiglu --expert-of block:1
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    copies=$(values output_std | awk '{ printf "%.6f\n", $1 }' | sort -u)
    [ "$(wc -l <<<"$copies")" -eq 1 ]
    run "$MOEFW" "${bench[@]}" --routers linear --expert swiglu --expert-of block:1 --experts 1 --top-k 1
    [ "$(values output_std | awk '{ printf "%.6f\n", $1 }')" = "$copies" ]
    run "$MOEFW" "${bench[@]}" --routers linear --expert swiglu --expert-of block
    [ "$(values output_std | awk '{ printf "%.6f\n", $1 }')" != "$copies" ]
    # the balance loss falls; a router without parameters or probabilities stays as it is
    linear=linear:init_std=0.3
    "$MOEFW" trace record run --batches 4 --activations -o act.trace --force -q
    learn=("${bench[@]}" --no-layer --activations act.trace:1 --experts 4 --batch 8 --seq 64)
    run "$MOEFW" "${learn[@]}" --routers $linear,hash,self_supervised
    before=$(values importance2_load | head -n 1) hash=$(sed -n 2p <<<"$output")
    entropy=$(values entropy_token | sed -n 3p)
    run "$MOEFW" "${learn[@]}" --routers $linear,hash,self_supervised --learn 60 --learn-on importance2_load --learn-lr 0.01
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    values importance2_load | head -n 1 | awk -v b="$before" '{ exit !($1 < b - 0.0001 && $1 > 0.0024) }'
    [ "$(sed -n 2p <<<"$output" | sed 's/"learn":60/"learn":0/')" = "$hash" ]
    values entropy_token | sed -n 3p | awk -v e="$entropy" '{ exit !($1 < e - 0.001) }'
    # two gates of a token: at most ln 2; one expert a token has none
    values entropy_gate | awk '$1 != "null" && !($1 >= 0 && $1 <= 0.693148) { bad = 1 } END { exit bad }'
    again=$output
    run "$MOEFW" "${learn[@]}" --routers $linear,hash,self_supervised --learn 60 --learn-on importance2_load --learn-lr 0.01
    [ "$output" = "$again" ]
    refuses() {
        run --separate-stderr "$MOEFW" "${bench[@]}" --routers linear "${@:3}"
        [ "$status" -eq "$1" ] || { echo "$status: $stderr"; return 1; }
        [[ "$stderr" == *"$2"* ]] || { echo "$stderr"; return 1; }
    }
    refuses 2 "block: expected the number of a dense block, from 0 to 1, found block 7, which has no weights" --expert swiglu --expert-of block:7
    refuses 2 "expected the number of a dense block, from 0 to 1, found block 0, which has experts" --expert swiglu --expert-of run
    refuses 2 "--expert-of=block: the block is 32 wide, the activations are 16" --expert swiglu --expert-of block --dim 16
    refuses 2 "--hidden: not beside --expert-of" --expert swiglu --expert-of block --hidden 8
    refuses 3 "nothere" --expert-of nothere
    refuses 2 "--expert=mlp: its weights w1 are not those of the dense block" --expert mlp --expert-of block
    refuses 2 "load_balanc" --learn 1 --learn-on load_balanc
}
