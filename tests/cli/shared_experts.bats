# Runs of several processes that share the experts (parallel.expert): the same bits as one process.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    ranks_setup
}

# shared "RANKS..." WORDS...: equal, where so many ranks share the experts, or as many of them as SHARING says
shared() {
    local more=(--set "parallel.expert=${SHARING:-8}")
    equal "$@"
}

@test "ranks share the experts: 2 and 4 ranks, turns that not all of them have" {
    shared "2 4" default --set train.dropout=0.1 --set train.clip=0.5
    shared "2" default --set train.accumulate=3
    shared "4" default --set train.accumulate=7 --set expert.plugin=mlp --set train.dtype=bf16
    shared "2" default --set train.accumulate=5 --set train.recompute=light -t 2
}

@test "shared experts: skewed loads, ranks without tokens, one token in all, capacity" {
    built skewed
    skewed=(default --plugin "$PWD/p/skewed.so")
    shared "4" "${skewed[@]}" --set router.first=6
    shared "2" "${skewed[@]}" --set router.first=3 --set router.count=1 --set moe.top_k=1 \
        --set train.batch=1 --set model.seq=1 --set train.accumulate=3
    shared "2" default --set moe.capacity_factor=1 --set moe.overflow=drop --set moe.priority=gate
    shared "4" default --set router.plugin=expert_choice --set moe.force_causal=yes --set train.optimizer=lion
}

@test "shared experts: groups of ranks share them, also where one has no micro-batch in a turn" {
    SHARING=2 shared "4" default --set train.dropout=0.1 --set train.clip=0.5
    SHARING=2 shared "4" default --set train.accumulate=5 --set expert.plugin=mlp --set train.dtype=bf16
    SHARING=2 shared "4" default --set train.accumulate=7 --set parallel.gradient=bf16 --set parallel.expert=2
    SHARING=2 shared "6" default --set train.accumulate=9 --set train.optimizer=lion --set moe.shared_experts=1
    built skewed
    SHARING=2 shared "4" default --plugin "$PWD/p/skewed.so" --set router.first=6
}

# Rows that ranks receive lie there, and those of one process are gathered: other loops may compute thin weights.
@test "shared experts: thin and odd widths" {
    for width in "16 48 swiglu" "20 7 swiglu" "20 16 mlp" "12 30 mlp" "36 13 swiglu"; do
        read -r dim hidden plugin <<<"$width"
        shared "2" default --set train.batch=6 --set train.steps=2 --set model.dim=$dim --set model.heads=2 \
            --set model.seq=36 --set expert.hidden=$hidden --set expert.plugin=$plugin --set moe.experts=4 \
            --set train.recompute=none || { echo "$width"; return 1; }
    done
}

# losses RUN: the losses of its steps
losses() {
    sed -n 's/.*"split":"train",.*"task_loss":\([^,]*\),.*/\1/p' "$1/metrics.jsonl"
}

# merged RANKS WORDS...: where rows are merged, losses are near those of one process, and two runs have the same bits
merged() {
    local n=$1 run
    shift
    rm -rf one many again
    thin one "$@"
    "$MOEFW" "${words[@]}"
    for run in many again; do
        thin $run "$@" --set "parallel.expert=${SHARING:-8}" --set parallel.exact=no
        ranks "$n" "${words[@]}" || return 1
    done
    same many again || return 1
    # their sums have another order: rows were merged
    run cmp {one,many}/ckpt/step-6/model.safetensors
    [ "$status" -eq 1 ] || return 1
    paste <(losses one) <(losses many) | awk -v most="${OFF:-2e-5}" '{ off = $1 - $2; if (off < 0) off = -off; n++
        if (off > most * $1) { print "step " n ": " $1 " " $2; bad = 1 } } END { exit bad || n != 6 }'
}

@test "shared experts: rows of all ranks at once (parallel.exact = no)" {
    merged 2 default --set train.dropout=0.1 --set train.clip=0.5
    merged 4 default --set train.accumulate=7 --set expert.plugin=mlp --set moe.capacity_factor=1
    SHARING=2 merged 4 default --set train.accumulate=5 --set train.recompute=block
    OFF=2e-3 merged 2 default --set train.dtype=bf16
    built skewed
    merged 4 default --plugin "$PWD/p/skewed.so" --set router.first=6
    # the run of the last line goes on with the bits of the one that did not stop
    rm -rf many/ckpt/step-6
    echo step-3 >many/ckpt/latest
    ranks 4 train many --resume -q -t 1 --plugin "$PWD/p/skewed.so"
    same again many
}

@test "shared experts: parallel.exact and parallel.room of one process change nothing" {
    thin one default --set parallel.expert=2
    "$MOEFW" "${words[@]}"
    thin many default --set parallel.expert=2 --set parallel.exact=no --set parallel.room=1
    "$MOEFW" "${words[@]}"
    same one many
    built skewed
    shared "2" default --plugin "$PWD/p/skewed.so" --set router.first=6 --set parallel.room=1 --set parallel.exact=yes
    thin x default --set parallel.room=0.5
    run "$MOEFW" "${words[@]}"
    refused 2 "'room' in \[parallel\]: out of range"
}

@test "shared experts: bytes between groups" {
    # Rows of tokens do not depend on the width of the experts, and hash has no parameters. In smaller ones tiles of
    # squares are divided, and their parts travel, too.
    for width in 1024 1536; do
        one=(--set router.plugin=hash --set parallel.expert=2 --set "expert.hidden=$width")
        more[width]=$(($(sent 4 16 "${one[@]}") - $(sent 4 6 "${one[@]}")))
        params[width]=$(sed -n 's/.*"params":\([0-9]*\),.*/\1/p' count/manifest.json)
    done
    echo "${more[@]} ${params[@]}"
    # In ten steps of one turn: 8 P (G-1)/G, where P is half of the experts, and G is 2.
    awk -v bytes=$((more[1536] - more[1024])) -v p=$((params[1536] - params[1024])) 'BEGIN {
        off = bytes / 10 / (8 * p / 2 / 2) - 1; print off; exit !(p > 1000 && off >= -0.01 && off < 0.03) }'
}

@test "shared experts: a run goes on in other groups" {
    thin one default --set train.save_every=2 --set train.accumulate=6 --set parallel.expert=2
    "$MOEFW" "${words[@]}"
    thin many default --set train.save_every=2 --set train.accumulate=6 --set parallel.expert=2
    ranks 4 "${words[@]}"
    same one many
    for n in 6 2 1; do
        rm -rf many/ckpt/step-6 many/ckpt/step-4
        echo step-2 >many/ckpt/latest
        ranks $n train many --resume -q -t 1
        same one many
    done
}

@test "shared experts: gradients in bf16, but not those of the experts" {
    shared "2 4" default --set parallel.gradient=bf16 --set parallel.expert=8 --set train.accumulate=7
    shared "2" default --set parallel.gradient=bf16 --set parallel.expert=8 --set train.accumulate=2 \
        --set train.dtype=bf16 --set train.clip=0.5
}

@test "shared experts: a run goes on where 2, 4 or 1 ranks have them; plugins of others" {
    thin one default --set train.save_every=2 --set parallel.expert=4
    "$MOEFW" "${words[@]}"
    thin many default --set train.save_every=2 --set parallel.expert=4
    ranks 2 "${words[@]}"
    same one many
    for n in 4 1; do
        rm -rf many/ckpt/step-6 many/ckpt/step-4
        echo step-2 >many/ckpt/latest
        ranks $n train many --resume -q -t 1
        same one many
    done
    built conv
    shared "4" default --plugin "$PWD/p/conv.so"
    thin x default --set expert.plugin=lora_experts --set parallel.expert=2
    run ranks 2 "${words[@]}"
    refused 2 "parallel.expert with 2 ranks: layers.0.expert.* does not say that each expert has its own part"
}

@test "shared experts: what is not possible is refused, an error ends all ranks" {
    thin x default --set parallel.expert=2
    run ranks 3 "${words[@]}"
    refused 2 "parallel.expert = 2 with 3 ranks: expected a number that divides them, or at least their number"
    thin x default --set parallel.expert=4
    run ranks 3 "${words[@]}"
    refused 2 "parallel.expert with 3 ranks: expected 1, 2, 4 or 8 ranks"
    thin x default --set parallel.expert=2 --set train.optimizer=muon
    run ranks 2 "${words[@]}"
    refused 2 "parallel.expert = 2: expected train.optimizer = adamw, adam or lion"
    thin x default --set parallel.expert=2 --set expert.plugin=attention --set moe.force_causal=yes
    run ranks 2 "${words[@]}"
    refused 2 "parallel.expert with 2 ranks: expected experts that look at single tokens"
    ${CC:-cc} -std=c17 -O1 -fPIC -shared -fvisibility=hidden -I"$srcdir/include" -I"$builddir/include" \
        -o by_prob.so "$srcdir/tests/plugins/third_party/by_prob.c" -lm
    thin x default --set parallel.expert=2 --set expert.plugin="$PWD/by_prob.so" --allow-config-plugins
    run ranks 2 "${words[@]}"
    refused 2 "parallel.expert with 2 ranks: expected experts that do not read probabilities"
    thin x default --set parallel.expert=2 --set train.lr=1000 --set train.clip=0 --set train.steps=60
    run ranks 2 "${words[@]}"
    echo "$output"
    [ "$status" -eq 5 ]
    [ "$(grep -c '^moefw: .*step ' <<<"$output")" -eq 1 ]
}

@test "shared experts: 20 drawn configurations" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    RANDOM=20
    pick() { shift $((RANDOM % $#)) && echo "$1"; }
    for i in $(seq 20); do
        drawn=(default --set train.seed=$RANDOM --set "moe.top_k=$(pick 1 2 3)" --set "expert.plugin=$(pick swiglu mlp)"
            --set "router.plugin=$(pick linear noisy_topk cosine hash sigmoid_bias mlp relu)"
            --set "train.dtype=$(pick f32 bf16)" --set "train.recompute=$(pick none light block)"
            --set "train.accumulate=$(pick 2 3 4 5 6 7)" --set "train.optimizer=$(pick adamw adam lion)"
            --set "moe.capacity_factor=$(pick 0 0 1 1.5)" --set "moe.shared_experts=$(pick 0 1)"
            --set "train.clip=$(pick 0 0.1 1)" --set "train.batch=$(pick 1 2 3)" --set "moe.experts=$(pick 4 8 12)")
        echo "${drawn[@]}"
        shared 2 "${drawn[@]}"
        [[ " ${drawn[*]} " =~ accumulate=[23]\  ]] || SHARING=$(pick 2 8) shared 4 "${drawn[@]}"
    done
    shared 8 default --set train.accumulate=9
}

# killed RANKS OTHERS: ends one of so many ranks at a random time, goes on with others; experts: at most so many
# share them
killed() {
    rm -rf cut whole
    RANKS=$1 every=$((1 + RANDOM % 3)) begin cut default --set "parallel.expert=${experts:-4}"
    sleep "0.0$((RANDOM % 10))"
    ranks_of cut >pids
    kill -KILL "$(sed -n "$((1 + RANDOM % $1))p" pids)"
    ended >/dev/null
    [ "$status" -ne 0 ]
    gone cut
    goes_on cut "$2"
}

@test "shared experts: 12 kills of a random rank, then other numbers of ranks" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    for experts in 4 2; do
        for others in 1 2 4; do
            killed 2 $others
            killed 4 $others
        done
    done
}

@test "shared experts: MPICH gives the same bits, also after a kill" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: MOEFW_SLOW=1 runs it"
    RANKS_MPI=mpich ranks_setup
    shared "2 4" default --set train.dropout=0.1 --set train.clip=0.5 --set train.accumulate=5
    SHARING=2 shared 4 default --set train.accumulate=7
    killed 2 4
    killed 4 1
}
