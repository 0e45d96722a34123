# Regression, and several tasks on one encoder: model.task = regress, [task.NAME].

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# scored FILE LINES SEED: sentences with the score 1.5 + the number of times they say fine, and a
# label: often from two on, else rare
scored() {
    awk -v lines="$2" -v seed="$3" 'function draw(n) { x = (x * 1103 + 12345) % 65521; return x % n }
        BEGIN {
            x = seed; split("the a film plot it is was so very and scene ends", w, " ")
            print "id\tsentence\tscore\tlabel"
            for (i = 0; i < lines; i++) {
                n = 0; s = ""
                for (j = 0; j < 6; j++) {
                    fine = draw(10) < 3; n += fine
                    s = s (j ? " " : "") (fine ? "fine" : w[1 + draw(12)])
                }
                print i "\t" s "\t" 1.5 + n "\t" (n > 1 ? "often" : "rare")
            }
        }' >"$1"
}

# tiny WORDS...: trains a small dense model on such sentences, as run; reads train.tsv and dev.tsv
tiny() {
    [ -e train.tsv ] || scored train.tsv 400 7
    [ -e dev.tsv ] || scored dev.tsv 60 99
    "$MOEFW" train vanilla -q -t 1 --out run --set model.dim=16 --set model.layers=1 --set model.seq=16 \
        --set model.vocab=auto --set model.classes=auto --set model.head_dropout=0 \
        --set model.ffn_dropout=0 --set train.dropout=0 --set train.batch=16 --set train.lr=0.01 \
        --set train.epochs=4 --set report.enabled=no "$@"
}

# last KEY [RUN]: its value in the last line of validation, the first of that name
last() {
    grep '"split":"val"' "${2-run}/metrics.jsonl" | tail -n 1 | grep -oE "\"$1\":[-+0-9.e]+" |
        head -n 1 | cut -d: -f2
}

# task NAME KEY [RUN]: the same for a task
task() {
    grep '"split":"val"' "${3-run}/metrics.jsonl" | tail -n 1 |
        sed -E "s/.*\"tasks\":\{.*\"$1\":(\{[^}]*\}).*/\1/" | grep -oE "\"$2\":[-+0-9.e]+" | cut -d: -f2
}

# lacks PATTERN FILE
lacks() { if grep -q -e "$1" "$2"; then return 1; fi; }

# holds CONDITION of awk
holds() { awk "BEGIN { exit !($1) }"; }

@test "regression: error, Pearson, Spearman" {
    tiny --set model.task=regress
    holds "$(last pearson) > 0.9 && $(last spearman) > 0.85 && $(last pearson) <= 1"
    holds "($(last rmse) ^ 2 - $(last mse)) ^ 2 < 1e-10 && ($(last mse) - $(last task_loss)) ^ 2 < 1e-8"
    holds "$(last mse) < 0.5" # their variance is about 1.2
    lacks '"accuracy"' run/metrics.jsonl
    grep -q '"tasks":\[{"name":"main","task":"regress","params":17}\]' run/manifest.json
    grep -q '^task = regress$' run/config.ini
    # eval measures what training measured
    "$MOEFW" eval run -t 1 --json >line.json
    [ "$(grep -oE '"spearman":[-0-9.e]+' line.json)" = "\"spearman\":$(last spearman)" ]
    run "$MOEFW" eval run -t 1
    [[ "$output" == *"(60 examples of "*"RMSE "*", Pearson 0."*", Spearman 0."* ]]
    [[ "$output" != *nats* ]]
    "$MOEFW" report run
    grep -q "Correlation of predictions and labels" run/report.html
    grep -q "mean squared error" run/report.html
}

@test "a head that predicts only the mean has the variance as error" {
    scored train.tsv 400 7
    scored dev.tsv 60 99
    mse=$("$MOEFW" eval vanilla -t 1 --json --set model.task=regress --set model.init=normal \
        --set model.init_std=0 --set model.dim=16 --set model.seq=16 --set model.vocab=auto |
        tee line.json | grep -oE '"mse":[0-9.]+' | cut -d: -f2)
    awk -F'\t' -v mse="$mse" 'FNR == 1 { next } FILENAME == "train.tsv" { sum += $3; n++; next }
        { d = $3 - sum / n; e += d * d; k++ }
        END { e /= k; exit !(e > 0.5 && (e - mse) ^ 2 < 1e-8) }' train.tsv dev.tsv
    lacks '"pearson"' line.json # predictions without variance have no correlation
}

@test "invalid numbers are reported with file, line and column" {
    scored train.tsv 30 7
    scored dev.tsv 30 9
    sed '4s/\t[0-9.]*\t/\thigh\t/' train.tsv >bad.tsv
    run tiny --set model.task=regress --set data.path=bad.tsv
    [ "$status" -eq 3 ]
    [[ "$output" == *'bad.tsv:4: column score: "high": expected a number'* ]]
    for value in nan inf 1e999 1e39 0x10 '1 2' -; do
        sed "3s/\t[0-9.]*\t/\t$value\t/" train.tsv >bad.tsv
        run tiny --set model.task=regress --set data.path=bad.tsv
        [ "$status" -eq 3 ]
        [[ "$output" == *"bad.tsv:3: column score: \"$value\": expected a number"* ]] || { echo "$output"; return 1; }
    done
    printf 'a b\t1.5\nc d\tx\n' >plain.tsv
    run tiny --set model.task=regress --set data.path=plain.tsv
    [[ "$output" == *'plain.tsv:2: column 2: "x": expected a number'* ]]
    run tiny --set model.task=regress --set data.label_column=points
    [ "$status" -eq 3 ]
    [[ "$output" == *"train.tsv:1: no column named points"* ]]
    printf '{"text":"a b","points":1.5}\n{"text":"c","points":"2"}\n' >bad.jsonl
    run tiny --set model.task=regress --set data.path=bad.jsonl --set data.format=jsonl \
        --set data.label_column=points --set data.val_path=
    [ "$status" -eq 3 ]
    [[ "$output" == *'bad.jsonl:2: "points": expected a number'* ]]
    run tiny --set model.task=regress --set data.path=builtin:topics --set data.format=text \
        --set data.val_path= --set data.limit=0
    [ "$status" -eq 2 ]
    [[ "$output" == *"the data have no numbers"* ]]
    [ ! -e run ]
}

@test "classification and regression by two heads on one encoder" {
    tiny --set task.score.task=regress
    grep -q '"tasks":\[{"name":"main","task":"classify","params":34,"classes":2},{"name":"score","task":"regress","params":17}\]' \
        run/manifest.json
    [ "$(task main accuracy)" = "$(last accuracy)" ]
    holds "$(last accuracy) > 0.9 && $(task score pearson) > 0.85"
    holds "($(task main loss) + $(task score loss) - $(last task_loss)) ^ 2 < 1e-8"
    lacks '"split":"val".*"macro_f1":[0-9.]*,"mse"' run/metrics.jsonl # the number's stand with it
    # the weights are multiplied
    mv run one
    tiny --set task.score.task=regress --set task.score.weight=0.25 --set model.task_weight=2
    holds "(2 * $(task main loss) + 0.25 * $(task score loss) - $(last task_loss)) ^ 2 < 1e-8"
    holds "$(task score weight) == 0.25 && $(task main weight) == 2"
    # other data with the classes of the run
    grep -v rare dev.tsv >often.tsv
    run "$MOEFW" eval run -t 1 --data often.tsv
    [ "$status" -eq 0 ]
    [[ "$output" == *"main: accuracy "*"; score: RMSE "* ]]
    "$MOEFW" report one
    grep -q "Loss of each task" one/report.html
    grep -q "parameters of the head" one/report.html
}

@test "regression first, then classification, and further names of columns" {
    tiny --set model.task=regress --set task.how.column=label
    holds "$(last pearson) > 0.85 && $(task how accuracy) > 0.8 && $(task how rows) == 60"
    grep -q '"name":"how","task":"classify","params":34,"classes":2,"class_names":\["often","rare"\]' run/manifest.json
    awk -F'\t' -v OFS='\t' 'NR > 1 && NR % 3 == 0 { $4 = "-" } { print }' dev.tsv >some.tsv
    "$MOEFW" eval run -t 1 --data some.tsv --json >line.json # "-" does not count there
    grep -q '"how":{"task":"classify","weight":1,"loss":[0-9.e-]*,"rows":40,' line.json
    printf 'sentence\tscore\tlabel\nso so\t2\tnever\n' >new.tsv
    run "$MOEFW" eval run -t 1 --data new.tsv
    [ "$status" -eq 3 ]
    [[ "$output" == *'new.tsv:2: label "never" does not occur'* ]]
    printf 'sentence\tscore\tlabel\nso so\t2\t\n' >new.tsv
    run "$MOEFW" eval run -t 1 --data new.tsv
    [[ "$output" == *'new.tsv:2: column label: the label is empty'* ]]
}

@test "a task of weight 0 leaves the others as they are, bit for bit" {
    tiny --set train.epochs=1
    mv run alone
    tiny --set train.epochs=1 --set task.score.task=regress --set task.score.weight=0
    [ "$(task main loss)" = "$(last task_loss alone)" ]
    [ "$(last accuracy)" = "$(last accuracy alone)" ]
    run "$MOEFW" ckpt diff alone run
    [[ "$output" == *head.score.bias* ]]
    [[ "$output" != *layers.0* ]] || { echo "$output"; return 1; }
    rm -rf run
    tiny --set train.epochs=1 --set task.score.task=none
    [ "$(last task_loss)" = "$(last task_loss alone)" ]
    lacks '^\[task' run/config.ini
}

@test "runs with tasks are repeated and resumed to the same bits" {
    untimed() { sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"; }
    tiny --set train.epochs=2 --set task.score.task=regress
    mv run whole
    run tiny --set train.epochs=2 --set task.score.task=regress --set train.time_limit=0.0001
    [ "$status" -eq 75 ]
    "$MOEFW" train -q -t 1 --resume run --set train.time_limit=0
    diff <(untimed whole) <(untimed run)
    "$MOEFW" train -q -t 1 whole/config.ini --out again
    diff <(untimed whole) <(untimed again)
}

@test "a checkpoint records the tasks of its heads" {
    tiny --set train.epochs=1 --set model.task=regress
    printf 'sentence\tlabel\nso so\tonly\nvery fine\tonly\n' >one.tsv
    run "$MOEFW" train -q -t 1 --resume run --set model.task=classify
    [ "$status" -eq 2 ]
    [[ "$output" == *"model.task: found classify, expected regress"* ]]
    sed -i 's/^task = regress/task = classify/' run/config.ini
    rm run/manifest.json # which knows what config.ini was
    run "$MOEFW" train -q -t 1 --resume run --set train.epochs=2 --set data.path=one.tsv --set data.val_path=one.tsv
    [ "$status" -eq 3 ]
    [[ "$output" == *"the checkpoint's head main is one to regress; expected one to classify"* ]]
}

@test "the best checkpoint is chosen by the requested measure" {
    best() { # best KEY ORDER: the step of its best value, by ORDER of sort -n
        grep '"split":"val"' run/metrics.jsonl |
            sed -E "s/.*\"step\":([0-9]+),.*\"$1\":([-+0-9.e]+).*/\2 \1/" | sort "$2" | head -n 1 | cut -d' ' -f2
    }
    for by in "pearson -gr" "mse -g"; do
        rm -rf run
        tiny --set model.task=regress --set train.keep_best=yes --set train.best_by="${by% *}" \
            --set train.lr=0.05 --set data.limit=64 --set train.epochs=6
        [ "$(cat run/best/latest)" = "step-$(best "${by% *}" "${by#* }")" ] || { echo "$by"; return 1; }
        run "$MOEFW" eval run/best -t 1 # this is the one that eval reads
        [[ "$output" == "val after $(cut -d- -f2 run/best/latest) steps: "* ]]
    done
    run tiny --set train.best_by=pearson
    [ "$status" -eq 2 ]
    [[ "$output" == *"'best_by'"*"learns numbers (regress)"* ]]
}

@test "sections of tasks are checked" {
    refused() {
        run "$MOEFW" config check vanilla --set "$@"
        [ "$status" -eq 2 ] || { echo "$output"; return 1; }
    }
    refused task.x.task=regres
    [[ "$output" == *"'task'"*"regress"* ]]
    refused task.x.wheight=1
    [[ "$output" == *"weight"* ]]
    refused task.main.task=regress
    [[ "$output" == *"'main' is the name of model.task"* ]]
    refused model.task_weight=2
    [[ "$output" == *"task_weight"* ]]
    eight=()
    for i in 1 2 3 4 5 6 7 8; do eight+=(--set "task.t$i.task=regress"); done
    refused task.x.task=regress "${eight[@]}"
    [[ "$output" == *"expected at most 8 sections [task.NAME]"* ]]
    "$MOEFW" config show vanilla "${eight[@]}" --set task.x.task=none | grep -qF '[task.t8]' # a task named none is no task
    refused task.x.weight=1 --set model.task=lm
    [[ "$output" == *"model.task = classify or regress"* ]]
    run "$MOEFW" config show vanilla --set task.x.task=regress --set task.x.column=points
    [[ "$output" == *"[task.x]"*"task = regress"*"column = points"*"weight = 1"* ]]
}

@test "the gap between training and validation" {
    tiny --set train.epochs=2
    while read -r line; do
        value() { grep -oE "\"$1\":[-+0-9.e]+" <<<"$line" | cut -d: -f2; }
        holds "($(value loss) - $(value train_loss) - $(value gap_loss)) ^ 2 < 1e-10"
        holds "($(value train_accuracy) - $(value accuracy) - $(value gap_accuracy)) ^ 2 < 1e-10"
    done < <(grep '"split":"val"' run/metrics.jsonl)
    # no figure, because the mean over steps is of other weights than validation
    "$MOEFW" report run
    ! grep -q "Gap between training and validation" run/report.html || false
    rm -rf run # training data measured with the same weights come before the training figures
    tiny --set train.epochs=1 --set train.eval_train=yes
    of() { grep "\"split\":\"$1\"" run/metrics.jsonl | tail -n 1 | grep -oE "\"$2\":[-+0-9.e]+" | cut -d: -f2; }
    holds "($(of val loss) - $(of train_eval loss) - $(of val gap_loss)) ^ 2 < 1e-10"
    holds "($(of train_eval accuracy) - $(of val accuracy) - $(of val gap_accuracy)) ^ 2 < 1e-10"
    "$MOEFW" report run
    grep -q "Gap between training and validation" run/report.html
}

@test "the preset with two tasks, and each task alone" {
    {
        printf 'pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n'
        for i in $(seq 60); do
            case $((i % 3)) in
            0) printf '%s\ta dog runs\ta dog runs\t5\tENTAILMENT\n' "$i" ;;
            1) printf '%s\ta dog runs\tno dog runs\t3.5\tCONTRADICTION\n' "$i" ;;
            2) printf '%s\ta dog runs\tsome men sleep\t1.2\tNEUTRAL\n' "$i" ;;
            esac
        done
    } >SICK_train.txt
    cp SICK_train.txt SICK_trial.txt
    sick() {
        "$MOEFW" train sick -q -t 1 --out run --set model.dim=16 --set model.seq=16 --set model.vocab=auto \
            --set train.batch=10 --set train.lr=0.01 --set report.enabled=no "$@"
    }
    sick
    holds "$(last accuracy) > 0.9 && $(task relatedness pearson) > 0.9"
    [ -d run/best ]
    rm -rf run
    sick --set model.task=regress --set task.relatedness.task=none --set data.label_column=relatedness_score
    holds "$(last pearson) > 0.9"
    rm -rf run
    sick --set task.relatedness.task=none
    holds "$(last accuracy) > 0.9"
    lacks '"tasks":' run/metrics.jsonl
}

@test "unsupported uses of heads on examples are reported" {
    tiny --set model.task=regress --set train.epochs=1 --set model.moe_every=1 --set trace.every=1
    run "$MOEFW" generate run -p fine
    [ "$status" -eq 2 ]
    [[ "$output" == *"model.task = regress"*"lm"* ]]
    # Traces of such runs can be replayed.
    "$MOEFW" trace replay run/trace/step-25.safetensors run | grep -q '^same: '
}

@test "routers are compared by regression error" {
    scored train.tsv 200 7
    scored dev.tsv 60 99
    "$MOEFW" compare tagat-balanced -q -t 1 --routers linear,random --seeds 2 --steps 12 --out cmp \
        --set model.task=regress --set model.dim=16 --set model.seq=16 --set model.vocab=auto \
        --set train.epochs=0 --set train.batch=16 --set train.lr=0.01 >table
    grep -q "^mean squared error of the validation split, lower is better" table
    grep -q "params Pearson$" table
    grep -q '"metric":"mse","split":"val","higher_is_better":false' cmp/comparison.json
    grep -q '"mse":[0-9.]*,"pearson":[-0-9.]*,"spearman":' cmp/comparison.json
}
