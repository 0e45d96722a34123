# moefw analyze: routing of which the truth is known, users' labels, imports, the page and its numbers.

setup_file() {
    cd "$BATS_FILE_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR" OMP_WAIT_POLICY=passive
    # Two domains with letters of their own, in documents and in folders.
    mkdir -p texts/sea texts/law
    for i in $(seq 60); do
        printf '{"text": "abc dabc adb cab %s", "topic": "sea", "half": %d}\n' "$i" $((i % 2))
        printf '{"text": "mnop nom pomp non %s", "topic": "law", "half": %d}\n' "$i" $((i % 2))
    done >domains.jsonl
    sed -n 's/.*"text": "\(abc[^"]*\)".*/\1/p' domains.jsonl >texts/sea/a.txt
    sed -n 's/.*"text": "\(mno[^"]*\)".*/\1/p' domains.jsonl >texts/law/a.txt
    train hash --plugin hash --set train.save_every=2 --set train.keep=9
    train random --plugin random
    train followed --plugin oracle --set data.path=domains.jsonl --set data.labels=topic
}

setup() {
    cd "$BATS_FILE_TMPDIR" || exit 1
}

train() {
    dir=$1
    shift
    "$MOEFW" train -q -t 1 --out "$dir" --set data.path='builtin:topics?bytes=40000' \
        --set model.layers=2 --set model.dim=16 --set model.seq=32 --set expert.hidden=16 \
        --set train.batch=4 --set train.eval_context=0 --set train.eval_every=4 \
        --set train.eval_batches=3 --steps 8 "$@" >/dev/null
}

# figure KEY [SECTION]: of the first layer in $json; SECTION is an object of the layer
figure() {
    layer=${json#*\"layers\":[}
    [ $# -eq 1 ] || layer=${layer#*\""$2"\":}
    printf '%s\n' "$layer" | grep -oE "\"$1\":[^],}]*" | head -n 1 | cut -d: -f2
}

# between LOW HIGH VALUE
between() {
    awk -v lo="$1" -v hi="$2" -v v="$3" 'BEGIN { exit !(v >= lo && v <= hi) }' || {
        echo "expected $1 to $2, found $3" >&2
        return 1
    }
}

@test "hash: the id says all that it can say, and every checkpoint has made the choice" {
    json=$("$MOEFW" analyze hash -t 1 -q --json)
    [ "$(figure most by_id)" = 1 ] # one expert for each token
    between 0.999999 1.000001 "$(figure plug_in by_id)"
    between 0.95 1 "$(figure held_out by_id)"
    between -0.05 0.01 "$(figure held_out by_position)"
    [ "$(figure overlap saturation)" = 1 ]
    between 0.1 0.6 "$(figure chance saturation)"
    [[ "$json" == *'"clusters":"windows"'* ]]
}

@test "random: nothing says anything, and pairs are those of chance" {
    json=$("$MOEFW" analyze random -t 1 -q --json)
    for value in by_id by_next_id by_position by_label; do
        between -0.02 0.004 "$(figure held_out "$value")"
    done
    between 0.002 1 "$(figure plug_in by_id)" # what bias alone shows
    between -0.01 0.01 "$(figure shuffled by_id)"
    [ "$(figure over_chance coactivation)" -eq 0 ]
    [ "$(figure pairs coactivation)" -eq 28 ]
    between 0.97 1.03 "$(figure distance_to_oracle)"
}

@test "users' labels: training has NMI and counts by label, and the oracle is at distance 0" {
    tail -n 1 followed/metrics.jsonl | grep -q '"nmi":1[,}]'
    grep -q '"labels":\["law","sea"\]' followed/routing_sample.json
    json=$("$MOEFW" analyze followed -t 1 -q --json)
    [[ "$json" == *'"clusters":"documents"'* ]]
    [[ "$json" == *'"labels":["law","sea"]'* ]]
    [ "$(figure nmi)" = 1 ]
    between -0.001 0.01 "$(figure distance_to_oracle)"
    # The same labels of another form of the same texts.
    json=$("$MOEFW" analyze followed -t 1 -q --json --text texts --labels folder)
    [ "$(figure nmi)" = 1 ]
    # Labels that the run does not know would give the router wrong numbers.
    run "$MOEFW" analyze followed -t 1 -q --text domains.jsonl --labels half
    [ "$status" -eq 3 ]
    [[ "$output" == *'label "1" does not occur in the training data (there are 2, the first is "law")'* ]]
}

@test "an imported model, with a text and labels of the user" {
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o imported -t 1 -q >/dev/null
    run "$MOEFW" analyze imported -t 1 -q --text domains.jsonl --labels topic
    [ "$status" -eq 0 ]
    [[ "$output" == *"tokens of domains.jsonl in 64 documents, loss "* ]]
    [[ "$output" == *"too few tokens for ids: "*"expected 20; the truth is between "*"(plug-in)"* ]]
    [[ "$output" == *"no earlier checkpoint to compare with"* ]]
}

@test "experts that were copied from one dense block compute the same" {
    "$MOEFW" import "$srcdir/tests/golden/pretrained/gpt2/hf" --upcycle experts=4,top_k=2 -o copied -t 1 -q >/dev/null
    json=$("$MOEFW" analyze copied -t 1 -q --json --outputs --text domains.jsonl --batches 4)
    cosines=$(printf '%s\n' "$json" | grep -oE '"mean_cosine":\[\[[^]]*\]' | tail -n 1 | grep -oE '[0-9.-]+[],]' | tr -d '],')
    [ "$(printf '%s\n' "$cosines" | wc -l)" -eq 4 ]
    for cosine in $cosines; do
        between 0.99999 1.00001 "$cosine"
    done
    between -1 0.99 "$(figure cosine_chance outputs)"
    # Other experts differ.
    json=$("$MOEFW" analyze random -t 1 -q --json --outputs --batches 4)
    cosine=$(printf '%s\n' "$json" | grep -oE '"mean_cosine":\[\[[^]]*\]' | head -n 1 | cut -d, -f2 | tr -d ']')
    between -0.9 0.9 "$cosine"
}

@test "the page has the numbers of the JSON, and nothing is written after a refusal" {
    "$MOEFW" analyze hash -t 1 -q --report page.html >/dev/null
    json=$("$MOEFW" analyze hash -t 1 -q --json)
    held=$(printf '%.3f [%.3f, %.3f]' "$(figure held_out by_id)" "$(figure held_out_lo by_id)" \
        "$(figure held_out_hi by_id)")
    grep -qF ">$held<" page.html
    grep -qF ">$(printf '%.3f (%.3f)' "$(figure cv utilization)" "$(figure cv_chance utilization)")<" page.html
    grep -qF 'moefw analyze hash --report page.html' page.html
    [ "$(grep -o '<sub style' page.html | wc -l)" -gt 20 ] # the text by expert
    run "$MOEFW" analyze hash -q --text texts --split val --report new.html
    [ "$status" -eq 2 ]
    [[ "$output" == *"--text is analyzed whole: expected no --split"* ]]
    train dense --set model.moe_every=0
    run "$MOEFW" analyze dense -q --report new.html
    [ "$status" -eq 2 ]
    [[ "$output" == *"a dense model (model.moe_every = 0): nothing is routed"* ]]
    run "$MOEFW" analyze hash -q --text domains.jsonl --labels subject --report new.html
    [ "$status" -eq 3 ]
    [[ "$output" == *'domains.jsonl:1: no "subject", the member that data.labels names'* ]]
    [ ! -e new.html ]
    echo mine >mine.txt
    run "$MOEFW" analyze hash -q --report mine.txt
    [ "$status" -eq 2 ]
    [ "$(cat mine.txt)" = mine ]
    [ -z "$(find . "${TMPDIR:-/tmp}" -maxdepth 1 -name 'moefw-trace-*' -newer domains.jsonl -print -quit)" ]
}
