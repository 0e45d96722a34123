# The presets tagat-* and vanilla: sizes, training on labelled sentences and pairs, measurements.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

params() {
    "$MOEFW" config check "$@" --json 2>/dev/null | sed -E 's/.*"params":([0-9]+).*/\1/'
}

# sentences FILE LINES SEED: "WORDS TAB LABEL"; one word of each decides the label
sentences() {
    awk -v lines="$2" -v seed="$3" 'function draw(n) { x = (x * 1103 + 12345) % 65521; return x % n }
        BEGIN {
            x = seed; split("the a film plot it is was so very and scene ends", w, " ")
            for (i = 0; i < lines; i++) {
                good = draw(2); n = 2 + draw(7); at = draw(n); s = ""
                for (j = 0; j < n; j++)
                    s = s (j ? " " : "") (j == at ? (good ? "fine" : "dull") : w[1 + draw(12)])
                print s "\t" (good ? "pos" : "neg")
            }
        }' >"$1"
}

# tiny PRESET WORDS...: trains a small model on such sentences, as run
tiny() {
    preset=$1
    shift
    [ -e train.tsv ] || sentences train.tsv 400 7
    [ -e dev.tsv ] || sentences dev.tsv 60 99
    "$MOEFW" train "$preset" -q -t 1 --out run --set model.dim=16 --set model.seq=24 \
        --set model.vocab=auto --set train.batch=16 --set train.lr=0.01 --set train.epochs=2 "$@"
}

# last KEY [RUN]: its value in the last line of validation
last() {
    grep '"split":"val"' "${2-run}/metrics.jsonl" | tail -n 1 |
        sed -E "s/.*\"$1\":([-+0-9.e]+).*/\1/"
}

# holds CONDITION of awk
holds() { awk "BEGIN { exit !($1) }"; }

@test "the published numbers of parameters" {
    for p in balanced specialised balanced-as-run specialised-as-run; do
        [ "$(params "tagat-$p")" = 4833159 ]
    done
    [ "$(params vanilla)" = 4303747 ]
    [ "$(params vanilla-as-run)" = 4303747 ]
    [ "$(params tagat-balanced --set model.classes=2)" = 4833030 ]
}

@test "tagat learns which word decides, and measures like the paper" {
    tiny tagat-balanced
    holds "$(last accuracy) > 0.95 && $(last macro_f1) > 0.95 && $(last train_accuracy) > 0.8"
    holds "$(last train_loss) < 3"
    # of two gates: at most ln 2; distances of the mean gates from an even load
    holds "$(last gate_entropy) > 0 && $(last gate_entropy) <= 0.6932"
    holds "$(last balance_kl) >= 0 && $(last balance_kl) < 1.3863"
    grep '"split":"val"' run/metrics.jsonl | tail -n 1 | sed -E 's/.*"importance":\[([^]]*)\].*/\1/' |
        awk -F, -v l2="$(last balance_l2)" '{
            for (i = 1; i <= NF; i++) { sum += $i; d += ($i - 1 / NF) ^ 2 }
            exit !(NF == 4 && (sum - 1) ^ 2 < 1e-10 && (sqrt(d) - l2) ^ 2 < 1e-10) }'
    # one line of validation per epoch: 400 sentences are 25 batches of 16
    [ "$(grep -c '"split":"val"' run/metrics.jsonl)" -eq 2 ]
    grep '"split":"val"' run/metrics.jsonl | head -n 1 | grep -q '"step":25,'
    # special tokens are shown by their names
    grep -q '"tokens":\["<cls>",.*"<sep>"' run/routing_sample.json
}

@test "each reading of the paper trains" {
    for words in "tagat-specialised" "tagat-balanced-as-run" "tagat-specialised-as-run" \
        "tagat-balanced --set expert.scope=batch" \
        "tagat-balanced --set expert.residual=no --set expert.ffn=no --set expert.out_proj=no" \
        "tagat-balanced --set film.mode=shared" "vanilla" "vanilla-as-run" \
        "tagat-balanced --set router.plugin=expert_choice --set expert.scope=zeroed"; do
        rm -rf run
        # shellcheck disable=SC2086
        tiny $words --set data.limit=64 || { echo "$words"; return 1; }
        holds "$(last loss) > 0 && $(last loss) < 20" || { echo "$words"; return 1; }
    done
}

@test "expert choice routes sequences too" {
    # Each expert takes every token: then all ways to choose are equal, whatever the order of
    # the lists.
    figure() {
        "$MOEFW" eval tagat-balanced -t 1 --json --set model.dim=16 --set model.seq=24 \
            --set model.vocab=auto --set train.batch=8 --set moe.top_k=4 --set moe.renormalize=no \
            --set expert.scope="$1" --set router.plugin="$2" --set router.init_std=1 "${@:3}" |
            sed -E 's/.*"task_loss":([-0-9.e]+).*/\1/'
    }
    sentences train.tsv 40 7
    sentences dev.tsv 60 99
    for scope in sequence zeroed batch; do
        all=$(figure $scope linear --set router.bias=no --set router.init=normal)
        listed=$(figure $scope expert_choice)
        holds "$all > 0.1 && ($all - $listed) ^ 2 < 1e-10" || { echo "$scope $all $listed"; return 1; }
    done
    tiny tagat-balanced --set router.plugin=expert_choice
    holds "$(last loss) > 0 && $(last loss) < 3"
}

@test "a detached term has its value and no gradient" {
    tiny tagat-balanced --set data.limit=64 --set regularizer.balance.weight=0
    mv run without
    tiny tagat-balanced --set data.limit=64 --set regularizer.balance.detach=yes
    cmp "without/ckpt/$(cat without/ckpt/latest)/model.safetensors" \
        "run/ckpt/$(cat run/ckpt/latest)/model.safetensors"
    holds "$(last loss) > $(last loss without)"
}

@test "padding to the batch's length changes only the work" {
    sentences train.tsv 40 7
    sentences dev.tsv 60 99
    figure() {
        "$MOEFW" eval tagat-balanced -t 1 --json --set model.dim=16 --set model.seq=40 \
            --set model.vocab=auto --set train.batch=8 --set data.padding="$1" \
            --set data.pad_mask="$2" | sed -E "s/.*\"$3\":([-0-9.e]+).*/\1/"
    }
    for key in task_loss accuracy gate_entropy balance_l2; do
        holds "($(figure max yes $key) - $(figure batch yes $key)) ^ 2 < 1e-10"
    done
    # without the mask padding is attended to
    holds "($(figure max yes task_loss) - $(figure max no task_loss)) ^ 2 > 1e-10"
}

@test "a run that was stopped resumes to the same bits and figures" {
    untimed() { sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"; }
    tiny tagat-balanced
    mv run whole
    run tiny tagat-balanced --set train.time_limit=0.0001
    [ "$status" -eq 75 ]
    "$MOEFW" train -q -t 1 --resume run --set train.time_limit=0
    diff <(untimed whole) <(untimed run)
}

@test "classes keep their numbers with other data" {
    tiny tagat-balanced
    grep -q '"class_names":\["neg","pos"\]' run/manifest.json
    grep pos dev.tsv >only.tsv
    run "$MOEFW" eval run -t 1 --data only.tsv --json
    [ "$status" -eq 0 ]
    holds "$(sed -E 's/.*"accuracy":([0-9.]+).*/\1/' <<<"$output") > 0.9"
    printf 'so so\tmixed\n' >>only.tsv
    run "$MOEFW" eval run -t 1 --data only.tsv
    [ "$status" -eq 3 ]
    [[ "$output" == *"only.tsv:"*"mixed"*"does not occur in the training data"* ]]
}

@test "pairs, with columns by name, and a part of the examples" {
    sentences all.tsv 200 7
    awk -F'\t' 'BEGIN { OFS = FS; print "id", "premise text", "claim", "score", "truth" }
        { print NR, $1, "it is " ($2 == "pos" ? "fine" : "dull"), 1, NR % 2 ? "yes" : "no" }' \
        all.tsv >train.tsv
    cp train.tsv dev.tsv
    columns="--set data.first_column=premise\ text --set data.second_column=claim"
    eval tiny tagat-balanced "$columns" --set data.label_column=truth --set data.limit=50
    # 50 pairs are 4 batches of 16 per epoch
    grep '"split":"val"' run/metrics.jsonl | head -n 1 | grep -q '"step":4,'
    grep -q '"class_names":\["no","yes"\]' run/manifest.json
    rm -rf run
    run eval tiny tagat-balanced "$columns" --set data.label_column=verdict
    [ "$status" -eq 3 ]
    [[ "$output" == *"train.tsv:1: no column named verdict"*"premise text"* ]]
    [ ! -e run ]
    run tiny tagat-balanced --set data.path=builtin:topics --set data.format=text
    [ "$status" -eq 2 ]
}

@test "a drawn part of the examples is the same for every seed" {
    tiny tagat-balanced --set data.limit=32 --set data.pick=drawn --set train.epochs=1 --seed 1
    mv run one
    tiny tagat-balanced --set data.limit=32 --set data.pick=drawn --set train.epochs=1 --seed 2
    cmp one/tokenizer.json run/tokenizer.json
    if cmp -s "one/ckpt/$(cat one/ckpt/latest)/model.safetensors" \
        "run/ckpt/$(cat run/ckpt/latest)/model.safetensors"; then return 1; fi
}

@test "the repeat script: runs, one table, and no run repeated" {
    mkdir -p "given data/sst2"
    sentences "given data/sst2/train.tsv" 60 7
    sentences "given data/sst2/dev.tsv" 30 99
    printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' a the film plot it is was so very and \
        scene ends fine dull >vocab.txt
    again() {
        sh "$srcdir/share/repeat/tagat.sh" --data "given data" --vocab vocab.txt --out "my tables" \
            --tasks sst2 --models tagat-balanced,vanilla --epochs 2 --seeds 1,2 --threads 1 \
            --set model.dim=8 --set model.seq=16 --set model.vocab=auto --set train.batch=16 "$@"
    }
    again >out 2>log
    [ "$(grep -c 'val loss' log)" -eq 4 ]
    cmp out "my tables/tables.md"
    grep -q '^| tagat-balanced | .6720 | 0\.[0-9]* ± ' out
    grep -q '^| sst2 | tagat-balanced − vanilla | last epoch | [-+]0\.' out
    [ "$(grep -cE '^\| sst2 \| (tagat-balanced|vanilla) \| [1-9][0-9]* \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| [1-9][0-9]* \|$' out)" -eq 2 ] ||
        { cat out; return 1; }
    again >out2 2>log
    [ "$(grep -c 'val loss' log)" -eq 0 ]
    cmp out out2
    # held-out sentences: with a file, or with more than 4,000 lines to train on
    if grep -q Held-out out; then return 1; fi
    sentences heldout.tsv 40 123
    again --test-sentences heldout.tsv >out3 2>log
    grep -q "^sha256 $(sha256sum <heldout.tsv | cut -c1-64) 40 to test" out3
    grep -q '^| linear model of words (baselines.sh) | [01]\.[0-9]*' out3
    [ "$(grep -cE '^\| (tagat-balanced|vanilla) \| [01]\.[0-9]* ± ' out3)" -eq 2 ]
    accuracy=$("$MOEFW" eval "my tables/runs/sst2-vanilla-1" --data heldout.tsv --json |
        sed 's/.*"accuracy": *\([0-9.]*\).*/\1/')
    [ "$accuracy" = "$(cat "my tables/runs/sst2-vanilla-1.held-out-"*)" ]
    run again --tasks mnli
    [ "$status" -eq 2 ]
    [[ "$output" == *"--tasks: mnli wants --mnli DIR"* ]]
    run again --tasks glue
    [ "$status" -eq 2 ]
    [[ "$output" == *"'glue' is none of sst2, sick, mnli"* ]]
    # MultiNLI in its own layout, with the published figures of the vanilla model
    mkdir mnli
    for file in train dev_matched; do
        printf 'index\tsentence1\tsentence2\tlabel1\tgold_label\n'
        for i in 1 2 3 4 5 6; do printf '%d\ta film is fine\tthe plot %d\tneutral\t%s\n' $i $i "$(sed -n "$((i % 3 + 1))p" <<'END'
neutral
entailment
contradiction
END
)"; done
    done >mnli/all
    head -n 7 mnli/all >mnli/train.tsv
    tail -n 7 mnli/all >mnli/dev_matched.tsv
    again --tasks mnli --mnli mnli --models vanilla --seeds 1 --out other >out4 2>log || { cat log; return 1; }
    grep -qE '^\| vanilla \| .5420 \(MultiNLI\) \| [01]?\.?[0-9.]+ \|' out4 || { cat out4; return 1; }
    grep -qE '^\| mnli \| vanilla \| [0-9]+ \| [0-9.]+ \|' out4
    run again --steps 3
    [ "$status" -eq 2 ]
    [ "$output" = "tagat.sh: unknown argument '--steps' (--help tells)" ]
    run again "--data vocab" 3
    [ "$output" = "tagat.sh: unknown argument '--data vocab' (--help tells)" ]
    run again --set
    [ "$output" = "tagat.sh: --set wants a value" ]
}

@test "baselines: ridge regression on relatedness, by hand" {
    # Two training pairs with 4 and 5 features, one in common: (K + 1) a = t - 3 with K = 4 1, 1 5 gives
    # a = (14, -12) / 29. Features that the three test pairs share with them: 4 1, 1 5, 1 3.
    head=$'pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment'
    printf '%s\n1\ta\ta\t5\tENTAILMENT\n2\tb\tc\t1\tNEUTRAL\n' "$head" >pairs.txt
    printf '%s\n1\ta\ta\t5\tENTAILMENT\n2\tb\tc\t1\tNEUTRAL\n3\ta\tz\t2\tNEUTRAL\n' "$head" >others.txt
    "$srcdir/share/repeat/baselines.sh" --train pairs.txt --test others.txt >told
    grep -qx 'relatedness, the mean    mse 3.0000' told
    grep -qx 'share of common words    pearson 0.9707' told
    # predictions 3 + 44 / 29, 3 - 46 / 29, 3 - 22 / 29
    grep -qx 'ridge regression         pearson 0.9998, mse 0.1542' told
    # sentences with a class alone have no relatedness
    printf 'a b\tx\nc d\ty\n' >classes.tsv
    "$srcdir/share/repeat/baselines.sh" --train classes.tsv --test classes.tsv >told
    [ "$(wc -l <told)" -eq 5 ]
}

@test "the quick profiles learn from real sentences" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    d=$MOEFW_SHARED/data
    [ -n "$MOEFW_SHARED" ] && [ -e "$d/sst2/train.tsv" ] && [ -e "$d/bert/vocab.txt" ] ||
        skip "no ../shared/data with sst2 and bert"
    for p in tagat-balanced tagat-specialised vanilla tagat-balanced-as-run \
        tagat-specialised-as-run vanilla-as-run; do
        rm -rf run
        "$MOEFW" train "$p-quick" -q --out run --data "$d/sst2/train.tsv" \
            --set data.val_path="$d/sst2/dev.tsv" --set data.tokenizer="$d/bert/vocab.txt"
        # For validation: best loss and accuracy, against chance. For training, first and last: the
        # loss; in as_run presets, where a term without gradient may grow, the accuracy.
        grep '"split":"val"' run/metrics.jsonl |
            sed -E 's/.*"task_loss":([0-9.]+).*,"accuracy":([0-9.]+).*"train_loss":([0-9.]+).*"train_accuracy":([0-9.]+).*/\1 \2 \3 \4/' |
            awk -v strict="${p##*-as-run}" '
                NR == 1 { first = $3; before = $4; loss = $1 }
                { if ($1 < loss) loss = $1; if ($2 > best) best = $2; last = $3; after = $4 }
                END {
                    print NR, loss, best, first, last, before, after
                    learned = strict == "" ? after > before + 0.1 : last < first && loss < 0.685
                    exit !(NR >= 5 && learned && best > 0.56)
                }' || { echo "$p"; return 1; }
    done
}
