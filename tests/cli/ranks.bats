# Runs of several processes: the same bits as one process, refused launches, resumes, faults.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    ranks_setup
}

@test "the same files on 1, 2, 3 and 4 ranks" {
    equal "2 3 4" default --set train.dropout=0.1 --set train.clip=0.5
}

@test "6 and 7 micro-batches, which the ranks divide unevenly" {
    equal "4" default --set train.accumulate=6
    equal "3" default --set train.accumulate=7
}

@test "answers, examples and tasks of which each micro-batch counts another number" {
    for i in $(seq 24); do
        printf '{"prompt": "%.*s", "answer": "%.*s"}\n' $((i % 7 + 1)) abcdefg $((i * i % 9 + 1)) klmnopqrst >>a.jsonl
        printf 'ab cd %s\t%s\t%s\n' $i $((i % 2)) "$( ((i % 3)) && echo - || echo $((i % 2)))" >>b.body
    done
    { printf 'sentence\tlabel\tother\n'; cat b.body; } >b.tsv
    equal "2 4" default --set data.path="$PWD/a.jsonl" --set data.val_path="$PWD/a.jsonl"
    equal "4" default --set data.path="$PWD/a.jsonl" --set data.val_path="$PWD/a.jsonl" --set data.padding=batch \
        --set train.dtype=bf16
    equal "2 4" default --set data.path="$PWD/b.tsv" --set data.val_path="$PWD/b.tsv" --set model.task=classify \
        --set task.two.task=classify --set task.two.column=other
}

@test "bf16, and two threads" {
    equal "2" default --set train.dtype=bf16
    thin many default --set train.dtype=bf16
    ranks 2 "${words[@]}" -t 2
    same one many
}

@test "the reference kernels, which sum no tiles" {
    export MOEFW_KERNELS=ref
    equal "2" default --set train.clip=0.1
}

@test "capacity: drops, and reassignment" {
    equal "3" default --set moe.capacity_factor=1 --set moe.overflow=drop --set moe.priority=gate
    equal "2" default --set moe.capacity_factor=1 --set moe.overflow=reassign --set moe.top_k=1 \
        --set router.plugin=tia_r --set train.recompute=light
}

@test "routers with noise, with state, and those that choose tokens" {
    equal "2" default --set router.plugin=noisy_topk
    equal "3" default --set router.plugin=sigmoid_bias --set controller.b.plugin=expert_bias
    equal "2" default --set router.plugin=expert_choice --set moe.force_causal=yes
}

@test "optimizers that see whole matrices" {
    equal "2" default --set train.optimizer=muon
    equal "3" default --set train.optimizer=adafactor
}

@test "classes, with attention experts" {
    for i in $(seq 60); do echo "a fine film $i	pos"; echo "so dull a plot $i	neg"; done >train.tsv
    equal "3" tagat-balanced --set data.path="$PWD/train.tsv" --set data.val_path="$PWD/train.tsv" \
        --set model.vocab=auto
}

@test "heads that a controller measures and prunes" {
    equal "2" default --set model.head_gates=yes --set train.steps=12 --set controller.s.plugin=sentinel \
        --set controller.s.every=2 --set controller.s.rate=20 --set controller.s.warmup=2 \
        --set controller.s.select=worst --set controller.s.max_pruned=0.4 --set controller.s.grace=100 \
        --set controller.s.entropy_high=0.1 --set controller.s.keep=1 --set controller.s.patience=0
    grep -q '"turns"' one/metrics.jsonl
}

@test "traces of the routing are those of one process" {
    thin one default --set trace.every=2
    "$MOEFW" "${words[@]}"
    thin many default --set trace.every=2
    ranks 3 "${words[@]}"
    same one many
    for file in one/trace/*; do
        run "$MOEFW" trace diff "$file" "many/trace/${file##*/}" --tolerance 0
        echo "$output"
        [ "$status" -eq 0 ]
        [[ "$output" == *" 0 "* ]]
    done
}

@test "a third-party router, and experts with a common part, on 4 ranks" {
    built conv
    equal "4" default --plugin "$PWD/p/conv.so"
    equal "4" default --set expert.plugin=lora_experts
}

@test "gradients in bf16: the same files on 1, 2, 3 and 4 ranks" {
    bf16=(default --set parallel.gradient=bf16)
    thin wide default --set train.clip=0.5
    "$MOEFW" "${words[@]}"
    equal "2 3 4" "${bf16[@]}" --set train.clip=0.5
    run same one wide
    [ "$status" -ne 0 ]
    equal "3" "${bf16[@]}" --set train.accumulate=7 --set train.dtype=bf16 --set parallel.optimizer=whole
    equal "2" "${bf16[@]}" --set train.accumulate=2 --set train.steps=3 --set model.dim=128 \
        --set expert.hidden=512 --set parallel.bucket=1 --set train.freeze='attention.*'
    rm -rf one many
    thin one "${bf16[@]}" --set train.accumulate=1
    "$MOEFW" "${words[@]}"
    run same one wide
    [ "$status" -ne 0 ]
}

# judged RANKS BYTES WORDS...: in a step rank 0 sends so many bytes for a parameter to those who have not got it
judged() {
    n=$1 bytes=$2
    shift 2
    few=$(sent "$n" 6 "$@")
    many=$(sent "$n" 16 "$@")
    params=$(sed -n 's/.*"params":\([0-9]*\),.*/\1/p' count/manifest.json)
    echo "$n ranks: $few bytes in 6 steps, $many in 16, $params parameters"
    # What is above are status and measurements of the micro-batches, and gaps of the storage.
    awk -v few="$few" -v many="$many" -v p="$params" -v n="$n" -v bytes="$bytes" 'BEGIN {
        off = (many - few) / 10 / (bytes * p * (n - 1) / n) - 1; print off; exit !(off >= 0 && off < 0.03) }'
}

@test "bytes of a step: 8 P (R-1)/R for each rank; 6 if gradients of single micro-batches are bf16" {
    judged 2 8
    judged 4 8
    judged 4 6 --set parallel.gradient=bf16
    judged 2 8 --set parallel.gradient=bf16
    # Rank 0 has 3 of 5 micro-batches: a sum of two, and one by itself.
    judged 2 10 --set parallel.gradient=bf16 --set train.accumulate=5
}

@test "the whole optimizer on each rank; small buckets, which the backward pass fills one after another" {
    big=(default --set model.dim=128 --set expert.hidden=512 --set train.steps=3 --set train.clip=0.5)
    equal "3" "${big[@]}" --set parallel.optimizer=whole --set train.dtype=bf16
    equal "2 3" "${big[@]}" --set parallel.bucket=1 --set train.freeze='attention.*'
}

@test "buckets leave while the backward pass runs" {
    thin early default
    words+=(--set train.steps=3 --set model.dim=128 --set expert.hidden=512 --set parallel.bucket=1)
    words=("${words[@]/#-q/-v}")
    run ranks 2 "${words[@]}"
    [ "$status" -eq 0 ]
    said=$(sed -n 's/.*rank 0 has sent \([0-9]*\) of \([0-9]*\) buckets.*/\1 \2/p' <<<"$output")
    echo "$said"
    read -r early all <<<"$said"
    # several buckets in each of 3 steps; only the last ones wait for the embedding
    [ "$all" -ge 12 ]
    [ $((all % 3)) -eq 0 ]
    [ $((2 * early)) -gt "$all" ]
    [ "$early" -lt "$all" ]
}

@test "8 ranks" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    equal "8" default --set train.accumulate=8
    equal "8" default --set train.accumulate=11 --set train.dtype=bf16
    MOEFW_COMM_CHUNK=65536 equal "7" default --set train.accumulate=8 --set train.optimizer=muon
    # Several buckets, and tiles of squares that slices divide.
    wide=(default --set model.dim=256 --set expert.hidden=1024 --set parallel.bucket=1 --set train.steps=3)
    for optimizer in adam lion muon adafactor; do
        equal "2 4" "${wide[@]}" --set train.optimizer=$optimizer --set train.clip=0.1
        equal "3" "${wide[@]}" --set train.optimizer=$optimizer --set train.accumulate=5 --set train.dtype=bf16
    done
    equal "4" "${wide[@]}" --set train.freeze='attention.*' --set model.tie_embeddings=yes
    equal "3" "${wide[@]}" --set train.recompute=block --set parallel.optimizer=whole
}

@test "8 ranks: shards of several buckets, and a run that goes on elsewhere" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    wide=(default --set model.dim=128 --set expert.hidden=512 --set parallel.bucket=1 --set train.steps=3
        --set train.accumulate=8 --set train.clip=0.1)
    for optimizer in adamw lion muon; do
        equal "8" "${wide[@]}" --set train.optimizer=$optimizer
    done
    equal "8" "${wide[@]}" --set parallel.gradient=bf16 --set train.dtype=bf16
    RANKS=8 every=2 begin cut "${wide[@]}"
    kill -KILL "$(ranks_of cut | sed -n 5p)"
    ended >/dev/null
    [ "$status" -ne 0 ]
    gone cut
    goes_on cut 5
}

@test "a run is resumed on another number of ranks: 2, 3, 1" {
    thin one default --set train.save_every=2
    "$MOEFW" "${words[@]}"
    thin many default --set train.save_every=2
    ranks 2 "${words[@]}"
    cut() { # CHECKPOINT: forgets what came later
        rm -rf many/ckpt/step-6
        [ "$1" = 4 ] || rm -rf many/ckpt/step-4
        echo "step-$1" >many/ckpt/latest
    }
    cut 2
    ranks 3 train many --resume -q -t 1
    same one many
    cut 4
    "$MOEFW" train many --resume -q -t 1
    same one many
}

@test "small messages" {
    MOEFW_COMM_CHUNK=1000 equal "2" default
}

# ids FIRST: a file of 20,000 token ids below 256
ids() {
    awk -v first="$1" 'BEGIN { for (i = 0; i < 20000; i++) printf "%c%c", (first + i * i) % 251 % 128, 0 }'
}

@test "token ids that stay in a file, and answers to prompts" {
    ids 1 >ids.bin
    equal "2" default --set data.path="$PWD/ids.bin" --set data.bin_bits=16 --set model.vocab=auto
    ids 2 >other.bin
    thin x default --set data.path="$PWD/ids.bin" --set data.bin_bits=16
    # One configuration, but another file on one rank.
    ln -s ids.bin 0.bin
    ln -s other.bin 1.bin
    mkdir a b
    cp ids.bin a/data.bin
    cp other.bin b/data.bin
    words=("${words[@]/$PWD\/ids.bin//proc/self/cwd/data.bin}")
    words=("${words[@]/#x/$PWD/x}")
    run timeout 60 "$mpirun" -n 1 env -C a "$MOEFW" "${words[@]}" : -n 1 env -C b "$MOEFW" "${words[@]}" 3>&-
    refused 4 "rank 1 (.*) has other data"
    for i in $(seq 60); do echo "{\"prompt\":\"a $i\",\"answer\":\"b $((i * i))\"}"; done >turns.jsonl
    equal "3" default --set data.path="$PWD/turns.jsonl" --set data.split=0.8
}

@test "bench comm: latency, bandwidth and all-to-all of the ranks" {
    run --separate-stderr ranks 3 bench comm --repetitions 2 --json
    [ "$status" -eq 0 ]
    [ "$(grep -c '"what":"latency","between":"node","comm":"openmpi","ranks":2,"bytes":8,' <<<"$output")" -eq 1 ]
    [ "$(grep -c '"what":"bandwidth","between":"node",.*"ranks":2' <<<"$output")" -eq 3 ]
    [ "$(grep -c '"what":"all_to_all","between":"node",.*"ranks":3' <<<"$output")" -eq 3 ]
    [ "$(wc -l <<<"$output")" -eq 7 ]
    # The all-to-all of 16 MiB: each rank sends a third of them to two others.
    tail -n 1 <<<"$output" | awk -F'[:,}]' '{ for (i = 1; i < NF; i++) v[$i] = $(i + 1)
        exit !(v["\"bytes\""] == int(16777216 / 3) &&
            v["\"gb_per_s\""] * v["\"us\""] * 1e3 / (2 * v["\"bytes\""]) - 1 < 1e-3) }'
    run --separate-stderr ranks 2 bench comm --repetitions 2
    [ "${#lines[@]}" -eq 9 ]
    [ "${lines[0]}" = "2 ranks by openmpi" ]
    run "$MOEFW" bench comm
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: bench comm: one process has no peer; expected a launcher"* ]]
    run ranks 2 bench comm --set parallel.patinece=1
    [ "$status" -eq 2 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
}

@test "plan: memory of a rank, and what is wrong with the file of a cluster" {
    ! grep -qE '__(asan|ubsan|tsan)_' "$MOEFW" || skip "a sanitizer's own memory comes on top"
    sized=(default -t 1 --set model.dim=192 --set expert.hidden=1024 --set train.accumulate=4 --set train.batch=2
        --set "data.path=builtin:topics?bytes=60000")
    for n in 1 2 3 4; do
        ranks "$n" train "${sized[@]}" -q --out "run$n" --set train.steps=2 --set train.warmup=1 \
            --set report.enabled=no --set train.eval_batches=1 --set train.final_batches=1
        "$MOEFW" plan "${sized[@]}" --cluster "$srcdir/share/cluster/measured.ini" --ranks "$n" --json >plan
        planned=$(sed 's/.*"ranks":'"$n"',.*"memory_gib":\([^,]*\),"shares".*/\1/' plan)
        tail -n 1 "run$n/memory.jsonl"
        tail -n 1 "run$n/memory.jsonl" | awk -F'[:}]' -v planned="$planned" '{
            off = planned * 1024 / $3 - 1; print off
            exit !(off > -0.1 && off < 0.1) }'
        # Rounded to MiB where it is printed.
        "$MOEFW" config check "${sized[@]}" --ranks "$n" | awk -v planned="$planned" '
            / MiB to train/ { for (i = 1; $(i + 1) != "MiB"; i++); off = $i - planned * 1024; print off
                found = off > -1 && off < 1 } END { exit !found }'
    done
    for n in "2 4" "4 4" "4 2"; do
        read -r n sharing <<<"$n"
        rm -rf ep
        ranks "$n" train "${sized[@]}" -q --out ep --set train.steps=2 --set train.warmup=1 \
            --set "parallel.expert=$sharing" --set report.enabled=no --set train.eval_batches=1 --set train.final_batches=1
        "$MOEFW" config check "${sized[@]}" --set "parallel.expert=$sharing" --ranks "$n" >planned
        cat planned ep/memory.jsonl
        awk -v used="$(sed -n '$s/.*://; $s/}//p' ep/memory.jsonl)" '
            / MiB to train/ { for (i = 1; $(i + 1) != "MiB"; i++); off = $i / used - 1; print off
                found = off > -0.1 && off < 0.1 } END { exit !found }' planned
    done
    "$MOEFW" plan "${sized[@]}" --cluster "$srcdir/share/cluster/measured.ini" --ranks 4 --set parallel.expert=2 --json |
        grep -q '"data":4,"expert":2,"tensor":1,"pipeline":1,[^}]*"runs":true'
    # where no layout runs, the reason is that of training
    while IFS='|' read -r n words why; do
        # shellcheck disable=SC2086 # words
        run -2 "$MOEFW" plan "${sized[@]}" --cluster "$srcdir/share/cluster/measured.ini" --ranks "$n" $words \
            --set parallel.expert=2
        [[ "$output" == "moefw: $n ranks: moefw train has no layout for them: parallel.expert$why" ]] || { echo "$output"; return 1; }
    done <<TXT
2|--set adapter.lora.plugin=lora| with 2 ranks: expected no adapters
3||: expected a number that divides them and moe.experts
TXT
    # layouts of the same time: fewer stages, slices of tensors, experts first; multiplying takes all time here
    printf '[cluster]\nranks = 4\nper_node = 4\n[rank]\nmeasured_gflops = 1e-12\nmemory_gb_per_s = 1e6\n' >slow.ini
    printf '[node]\ngb_per_s = 1e6\n[fit]\nhost_us = 0\nhost_expert_us = 0\n' >>slow.ini
    "$MOEFW" plan "${sized[@]}" --cluster slow.ini --json | grep -oE '"expert":[0-9]*,"tensor":[0-9]*,"pipeline":[0-9]*' |
        grep -oE '[0-9]+' | paste -sd '  \n' | head -5 | paste -sd , >order
    cat order
    [ "$(cat order)" = "1 1 1,2 1 1,4 1 1,1 2 1,2 2 1" ]
    # Moments are a third of what the parameters take, and most of the difference.
    "$MOEFW" plan "${sized[@]}" --set parallel.optimizer=whole --cluster "$srcdir/share/cluster/measured.ini" \
        --ranks 4 --json >whole
    whole=$(sed 's/.*"ranks":4,.*"memory_gib":\([^,]*\),"shares".*/\1/' whole)
    awk -v whole="$whole" -v planned="$planned" 'BEGIN { exit !(planned < 0.95 * whole) }'
    # Of three other micro-batches a quarter of the gradients comes in half the bytes.
    mib() { sed -n 's/.*[^0-9]\([0-9]*\) MiB to train.*/\1/p'; }
    all=$("$MOEFW" config check "${sized[@]}" --ranks 4 | mib)
    less=$("$MOEFW" config check "${sized[@]}" --ranks 4 --set parallel.gradient=bf16 | mib)
    params=$(sed -n 's/.*"params":\([0-9]*\),.*/\1/p' run4/manifest.json)
    echo "$all $less $params"
    awk -v saved="$((all - less))" -v p="$params" 'BEGIN {
        off = saved - 3 * p / 4 * 2 / 1048576; print off; exit !(off >= -2 && off <= 2 && saved > 2) }'
    # The exchange, most of the update, has 6 bytes for each parameter in place of 8.
    update() { "$MOEFW" plan "${sized[@]}" "$@" --cluster "$srcdir/share/cluster/measured.ini" --ranks 4 --json |
        sed 's/.*"step_s":\([^,]*\),"tokens.*"update":\([^}]*\)},"layouts.*/\1 \2/' | awk '{ print $1 * $2 }'; }
    awk -v all="$(update)" -v less="$(update --set parallel.gradient=bf16)" 'BEGIN {
        print less / all; exit !(less / all > 0.75 && less / all < 0.8) }'
    run "$MOEFW" config check "${sized[@]}" --ranks 5
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: --ranks 5, but train.accumulate = 4: "* ]]
    grep -q '"layouts":\[{"data":[0-9]*,"expert":[0-9]*,"tensor":[0-9]*,"pipeline":[0-9]*,"step_s":' plan
    run --separate-stderr "$MOEFW" plan default --cluster "$srcdir/share/cluster/h100.ini" --set data.path=missing.txt
    [ "$stderr" = "moefw: warning: memory is not known without the data of the configuration" ]
    run "$MOEFW" plan default --cluster "$srcdir/share/cluster/h100.ini"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" =~ ^1\ rank:\ .*\ s\ a\ step ]]
    printf '[cluster]\nranks = 2\n[node]\ngb_per_ss = 1\n' >c.ini
    run "$MOEFW" plan default --cluster c.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: "*"c.ini:4: unknown key 'gb_per_ss' in [node]; did you mean 'gb_per_s'?"* ]]
    sed -i '3,$d' c.ini
    run "$MOEFW" plan default --cluster c.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: "*"c.ini: [rank] has no speed; expected tflops, or measured_gflops"* ]]
    run "$MOEFW" plan default --cluster nothere.ini
    [ "$status" -eq 3 ]
    run "$MOEFW" plan default
    [ "$status" -eq 2 ]
}

@test "doctor names the modules" {
    run "$MOEFW" doctor
    [[ "$output" =~ communicators\ +openmpi ]]
}

@test "the program itself needs no MPI" {
    run ! bash -c "ldd '$builddir/moefw' '$builddir/libmoefw.so.0' | grep -i mpi"
}

@test "more ranks than micro-batches, and wrong configurations: one message, nothing written" {
    thin x default --set train.accumulate=2
    run ranks 3 "${words[@]}"
    refused 2 "3 ranks, but train.accumulate = 2"
    thin x default --set train.btach=2
    run ranks 2 "${words[@]}"
    refused 2 "unknown key 'btach'"
}

@test "a module that is missing, everywhere and on one rank" {
    thin x default --set parallel.comm=nothing
    run ranks 2 "${words[@]}"
    echo "$output"
    [ "$status" -eq 6 ]
    grep -q "^moefw: .*no communicator module comm/nothing.so" <<<"$output"
    thin x default --set parallel.comm=/proc/self/cwd/comm.so
    mkdir a b
    cp "$builddir/plugins/comm/openmpi.so" a/comm.so
    run timeout 60 "$mpirun" -n 1 env -C a "$MOEFW" "${words[@]}" : -n 1 env -C b "$MOEFW" "${words[@]}" 3>&-
    echo "$output"
    [ "$status" -eq 4 ]
    grep -q "^moefw: rank 1: .*comm.so" <<<"$output"
}

@test "another configuration on one rank" {
    thin x default
    run timeout 60 "$mpirun" -n 1 "$MOEFW" "${words[@]}" : -n 1 "$MOEFW" "${words[@]}" --set train.lr=0.5 3>&-
    refused 4 "rank 1 (.*) has another configuration than rank 0"
}

@test "another plugin on one rank" {
    mkdir a b
    sed 's/"z_loss"/"mine"/' "$srcdir/plugins/regularizers/z_loss.c" >mine.c
    for folder in a b; do
        ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
            -o $folder/mine.so mine.c -lm
        sed -i 's/1.0 \/ used/2.0 \/ used/' mine.c
    done
    thin "$PWD/x" default --set regularizer.mine.plugin=/proc/self/cwd/mine.so
    run timeout 60 "$mpirun" -n 1 env -C a "$MOEFW" "${words[@]}" : -n 1 env -C b "$MOEFW" "${words[@]}" 3>&-
    refused 4 "rank 1 (.*) has other plugins than rank 0"
}

@test "other kernels on one rank" {
    thin x default
    run timeout 60 "$mpirun" -n 1 "$MOEFW" "${words[@]}" : -n 1 env MOEFW_ISA=generic "$MOEFW" "${words[@]}" 3>&-
    refused 4 "rank 1 (.*) has other kernels"
}

@test "a rank that fails alone ends all with its code and message" {
    thin x default
    mkdir x
    : >x/file
    run ranks 2 "${words[@]}"
    echo "$output"
    [ "$status" -eq 2 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
    grep -q "contains files\|not empty\|--resume" <<<"$output"
}

@test "diverged: one message, the code of one process" {
    thin one default --set train.lr=1e3 --set train.warmup=0 --set train.clip=0
    run "$MOEFW" "${words[@]}" --set train.steps=40
    [ "$status" -eq 5 ]
    thin many default --set train.lr=1e3 --set train.warmup=0 --set train.clip=0
    run ranks 2 "${words[@]}" --set train.steps=40
    echo "$output"
    [ "$status" -eq 5 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
}

# big: a regularizer whose value times a large weight is not finite
big() {
    sed 's/square(g, mf_logsumexp(g, r->logits))/scale(g, mf_logsumexp(g, r->logits), 1e30)/; s/"z_loss"/"big"/' \
        "$srcdir/plugins/regularizers/z_loss.c" >big.c
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
        -o big.so big.c -lm
    skips=(--set regularizer.big.plugin="$PWD/big.so" --set regularizer.big.weight=1e9 --set train.nan_policy=skip
        --set controller.s.plugin=schedule --set controller.s.target=regularizer.big.weight
        --set controller.s.from=1e9 --set controller.s.to=0 --set controller.s.shape=step
        --set controller.s.end=2 --set controller.s.every=1)
}

@test "steps whose loss is not finite are skipped" {
    big
    equal "2" default "${skips[@]}"
    grep -q '"loss":null' one/metrics.jsonl
}

@test "train.time_limit: one checkpoint, one message, the name of the run, status 75" {
    thin x default
    words+=(--set train.steps=1000000 --set train.schedule=constant --set train.time_limit=1)
    run --separate-stderr ranks 2 "${words[@]}"
    echo "$output $stderr"
    [ "$status" -eq 75 ]
    [ "$output" = x ]
    [ "$(grep -c '^moefw: time limit of 1 s' <<<"$stderr")" -eq 1 ]
    "$MOEFW" ckpt verify "x/ckpt/$(cat x/ckpt/latest)"
}

@test "an error of one rank, after steps that were skipped" {
    command -v prlimit >/dev/null || skip "no prlimit"
    big
    every=0 begin full default "${skips[@]}"
    prlimit --pid "$(ranks_of full | head -n 1)" --fsize=100
    ended
    [ "$status" -eq 1 ]
    [ "$(grep '^moefw: ' log | grep -vc 'moefw: warning: ')" -eq 1 ]
    grep -q '^moefw: rank 0 (.*): .*cannot write' log
    gone full
}

@test "train.on_usr1 = stop: a checkpoint, and 75" {
    every=0 begin limited default --set train.on_usr1=stop
    kill -USR1 "$(ranks_of limited | tail -n 1)"
    ended
    [ "$status" -eq 75 ]
    [ "$(grep -c '^moefw: stopped by SIGUSR1 (train.on_usr1) at step' log)" -eq 1 ]
    gone limited
    goes_on limited
}

# job WORDS...: the words of a run that its limit of time cuts twice or more
job() {
    thin "$@"
    words=("${words[@]:1}")
    words+=(--set train.steps=60 --set train.eval_every=0 --set train.save_every=0)
}

@test "job files: a run goes on after the limit of time" {
    folder=$srcdir/share/cluster
    job whole default
    "$MOEFW" train "${words[@]}"
    # Without --out: the job files give it.
    settings=()
    for word in "${words[@]}"; do
        case $word in --out | whole | -q | default) ;; *) settings+=("$word") ;; esac
    done
    # So short that no machine does all steps at once; a slow one starts again for each step.
    MOEFW_STARTS=100 MPIRUN=$mpirun MOEFW=$MOEFW sh "$folder/mpirun.sh" 2 default one "${settings[@]}" \
        --set train.time_limit=0.02 2>log
    grep -q 'mpirun.sh: ended with 75; starting again' log
    cmp {whole,one}/ckpt/step-60/model.safetensors
    cmp {whole,one}/ckpt/step-60/state.safetensors
    mkdir bin
    # Slurm and PBS as far as the files need them: the signal comes after the first steps.
    cat >bin/srun <<END
#!/bin/sh
shift
$mpirun -n 2 "\$@" &
until [ -s two/metrics.jsonl ]; do sleep 0.1; done
kill -USR1 "\$(pgrep -P \$! -x "${MOEFW##*/}" | head -n 1)"
wait \$!
END
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho "$*" >>queue\n' | tee bin/scontrol >bin/qsub
    chmod +x bin/*
    PATH=$PWD/bin:$PATH SLURM_JOB_ID=7 sh "$folder/slurm.sh" default two "${settings[@]}" --set train.steps=100000 &
    wait $!
    [ "$(cat queue)" = "requeue 7" ]
    "$MOEFW" ckpt verify "two/ckpt/$(cat two/ckpt/latest)"
    printf 'a\nb\n' >nodes
    "$MOEFW" config show default "${settings[@]}" --set train.steps=100000 >long.ini
    code=0
    PATH=$PWD/bin:$PATH PBS_NODEFILE=nodes CONFIG=long.ini RUN=three LIMIT=1 MPIRUN=$mpirun \
        sh "$folder/pbs.sh" || code=$?
    [ "$code" -eq 75 ]
    [ "$(tail -n 1 queue)" = "-v CONFIG=long.ini,RUN=three pbs.sh" ]
    PATH=$PWD/bin:$PATH PBS_NODEFILE=nodes CONFIG=long.ini RUN=three LIMIT=1 MPIRUN=$mpirun \
        sh "$folder/pbs.sh" || true
    [ "$(find three/ckpt -name 'step-*' | wc -l)" -ge 2 ]
}

@test "a rank is killed: the others end, and the run goes on from its checkpoint" {
    begin cut default
    sleep "0.$((RANDOM % 10))"
    kill -KILL "$(ranks_of cut | tail -n 1)"
    ended
    [ "$status" -eq 137 ]
    gone cut
    goes_on cut
}

@test "30 kills of a random rank at a random time, also during saves" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    for turn in $(seq 30); do
        rm -rf cut whole
        every=$((1 + turn % 3)) begin cut default
        sleep "0.0$((RANDOM % 10))"
        ranks_of cut >pids
        kill -KILL "$(sed -n "$((1 + RANDOM % 2))p" pids)"
        ended >/dev/null
        [ "$status" -ne 0 ]
        gone cut
        goes_on cut
    done
}

@test "a rank stands still: for a moment, and longer than parallel.patience" {
    begin still default --set parallel.patience=3
    victim=$(ranks_of still | tail -n 1)
    kill -STOP "$victim"
    sleep 1
    kill -CONT "$victim"
    sleep 0.5
    kill -STOP "$victim"
    ended
    [ "$status" -eq 7 ]
    grep -q 'moefw: rank 0 (.*no answer from rank 1 (.*) for 3 s (parallel.patience)' log
    gone still
    goes_on still
}

@test "a signal for the launcher, or for one rank, stops all with one checkpoint" {
    begin asked default
    kill -TERM "$(ranks_of asked | tail -n 1)"
    ended
    [ "$status" -eq 143 ]
    [ "$(grep -c '^moefw: stopped by signal 15 at step' log)" -eq 1 ]
    gone asked
    goes_on asked
    rm -rf asked whole
    # Open MPI kills ranks a second after the signal, which a save on a busy machine may exceed.
    OMPI_MCA_odls_base_sigkill_timeout=60 PRTE_MCA_odls_base_sigkill_timeout=60 begin asked default
    kill -TERM "$(pgrep -P "$job")" # the launcher, below timeout
    ended
    [ "$status" -ne 0 ]
    gone asked
    grep -q '^moefw: stopped by signal 15 at step' log
    goes_on asked
}

@test "SIGUSR1 to one rank saves a checkpoint at once" {
    every=0 begin saved default
    sleep 0.5
    [ ! -e saved/ckpt/latest ]
    kill -USR1 "$(ranks_of saved | tail -n 1)"
    for i in $(seq 100); do
        [ -e saved/ckpt/latest ] && break
        sleep 0.1
    done
    newest=$(cat saved/ckpt/latest)
    "$MOEFW" ckpt verify "saved/ckpt/$newest"
    kill -TERM "$(ranks_of saved | head -n 1)"
    ended
    [ "$status" -eq 143 ]
}

@test "a plugin that is not the same everywhere is named at the next save" {
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" -o last.so \
        "$srcdir/tests/plugins/bad/rules/rule_last_batch.c" -lm
    thin x default --plugin "$PWD/last.so"
    run ranks 2 "${words[@]}"
    echo "$output"
    [ "$status" -eq 4 ]
    [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
    grep -q '^moefw: .*layers.0.router.* differs between rank 0 and rank 1' <<<"$output"
}

@test "a plugin that uses rand, or keeps something outside of buffers, is named at the next save" {
    # wrong NUMBER TEXT: what is printed with tests/plugins/defects/unsteady.c
    wrong() {
        ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -DWRONG="$1" -I"$srcdir/include" \
            -I"$builddir/include" -o "wrong$1.so" "$srcdir/tests/plugins/defects/unsteady.c" -lm
        thin x default --plugin "$PWD/wrong$1.so"
        run ranks 2 "${words[@]}"
        echo "$output"
        [ "$status" -eq 4 ]
        [ "$(grep -c '^moefw: ' <<<"$output")" -eq 1 ]
        grep -q "^moefw: .*$2" <<<"$output"
        [ ! -e x/ckpt/latest ]
        rm -rf x
    }
    wrong 0 "unsteady (layers.0.router.*): has other values when the same micro-batch runs again"
    wrong 1 "unsteady (layers.0.router.*): has other values when the same micro-batch runs again"
    wrong 2 "unsteady (layers.0.router.*): has other values on rank 1 (.*) than on rank 0"
    wrong 3 "layers.0.router.drawn differs between rank 0 and rank 1"
}

@test "evaluation at the end of a run that is complete" {
    thin one default
    "$MOEFW" "${words[@]}"
    cp -r one many
    "$MOEFW" train one --resume -q -t 1
    ranks 2 train many --resume -q -t 1
    same one many
}

@test "MPICH gives the same bits" {
    RANKS_MPI=mpich ranks_setup
    equal "3" default
    thin x default --set parallel.comm=openmpi
    # Open MPI makes and removes one folder for processes that it did not start, and both may do so
    # at once: each gets a place of its own.
    printf '%s\n' '#!/bin/sh' "OMPI_MCA_orte_tmpdir_base=$PWD/\$PMI_RANK TMPDIR=$PWD/\$PMI_RANK" \
        'export OMPI_MCA_orte_tmpdir_base TMPDIR' 'mkdir -p "$TMPDIR"' "exec '$MOEFW' \"\$@\"" >each
    chmod +x each
    MOEFW=$PWD/each run ranks 2 "${words[@]}"
    refused 2 "has started 2 processes, but communicator openmpi sees 1"
    # MPICH can take the ranks of one machine for those of two.
    MPIR_CVAR_ODD_EVEN_CLIQUES=1 run --separate-stderr ranks 3 bench comm --repetitions 1 --json
    [ "$status" -eq 0 ]
    [ "$(grep -c '"between":"node",' <<<"$output")" -eq 7 ]
    [ "$(grep -c '"what":"all_to_all","between":"nodes","comm":"mpich","ranks":3' <<<"$output")" -eq 3 ]
}
