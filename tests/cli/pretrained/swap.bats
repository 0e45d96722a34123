# moefw swap: another router in a run's model, its fit to the old one, and the numbers of the report.

bats_require_minimum_version 1.5.0

setup_file() {
    export OMP_WAIT_POLICY=passive XDG_CONFIG_HOME="$BATS_FILE_TMPDIR"
    cd "$BATS_FILE_TMPDIR" || exit 1
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o imported -q -t 1 >&2
}

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    cp -r "$BATS_FILE_TMPDIR/imported" run
    small=(-t 1 -q --set data.path='builtin:topics?bytes=40000' --set model.seq=32 --set train.batch=4 --batches 2)
}

# values KEY: all numbers with this key in the JSON in $output, one in each line
values() {
    printf '%s\n' "$output" | grep -oE "\"$1\":[^],}]*" | cut -d: -f2
}

@test "linear for linear with the same weights changes nothing: zeros everywhere" {
    run "$MOEFW" swap run --router linear -o new --json "${small[@]}"
    [ "$status" -eq 0 ]
    [ "$(values overlap | sort -u)" = 1 ]
    for key in kl kl_start mass_moved kl_next_token; do [ "$(values $key | sort -u)" = 0 ]; done
    [ "$(values loss_before)" = "$(values loss_after)" ]
    [[ "$output" == *'"run":"new"}' ]]
    before=$(printf '%s' "$output" | grep -oE '"load_before":[^]]*' | cut -d: -f2)
    after=$(printf '%s' "$output" | grep -oE '"load_after":[^]]*' | cut -d: -f2)
    [ -n "$before" ]
    [ "$before" = "$after" ]
    "$MOEFW" export hf run -o one && "$MOEFW" export hf new -o two && diff -r one two
    "$MOEFW" ckpt verify new
    # the record of the import comes along
    "$MOEFW" export hf new -o back
    for file in "$srcdir"/tests/golden/pretrained/mixtral/hf/*; do cmp "$file" "back/${file##*/}"; done
}

# tenfold RUN LAYERS: a fit lowers the divergence at least tenfold in each layer, for four kinds
# of router
tenfold() {
    for router in linear mlp attention hybrid; do
        run "$MOEFW" swap "$1" --router "$router" --fresh --match 30 -o "$1-$router" --json "${small[@]}"
        [ "$status" -eq 0 ]
        [ "$(values kl | wc -l)" -eq "$2" ]
        values kl >now
        values kl_start >before
        paste before now | tee "$router.txt" | awk '{ if (!($1 > 0.001 && $2 >= 0 && $2 < $1 / 10)) exit 1 }'
        values overlap | awk '$1 < 0.8 { exit 1 }'
    done
}

@test "a fit lowers the divergence at least tenfold in each layer: Mixtral" {
    tenfold run 2
}

@test "a fit lowers the divergence at least tenfold in each layer: Qwen2-MoE, unnormalised gates" {
    "$MOEFW" import "$srcdir/tests/golden/pretrained/qwen2_moe/hf" -o qwen -q -t 1
    tenfold qwen 3
}

@test "a fit lowers the divergence at least tenfold in each layer: a real decoder" {
    [ -n "$MOEFW_PRETRAINED" ] || skip "MOEFW_PRETRAINED names no reference set"
    "$MOEFW" import "$MOEFW_PRETRAINED/stories/mixtral/hf" -o stories -q -t 1
    "$MOEFW" generate stories --ids ids.bin --begin 1 --samples 60 -n 255 --temp 1 --top-k 0 --top-p 1 -t 1
    small=(-t 1 -q --data ids.bin --set model.seq=256 --set train.batch=2 --batches 2)
    tenfold stories 5
}

@test "a swapped router of Qwen's form is trained with low-rank changes of the attention" {
    "$MOEFW" import "$srcdir/tests/golden/pretrained/qwen2_moe/hf" -o qwen -q -t 1
    "$MOEFW" swap qwen --router attention:qk_dim=8 --match 10 -o swapped "${small[@]}" >&2
    grep -q '^top_k = 2' swapped/config.ini
    lora=(--set adapter.lora.plugin=lora --set adapter.lora.rank=4 --set adapter.lora.alpha=16
        --set 'adapter.lora.at=attention.q, attention.k, attention.v, attention.o')
    # only adapters learn, then the router, too
    "$MOEFW" train swapped/config.ini --out all -q -t 1 "${lora[@]}" --set 'train.freeze=*' --steps 60 \
        --set train.lr=0.01 --set train.log_every=1 --set train.eval_batches=2
    "$MOEFW" train swapped/config.ini --out router -q -t 1 "${lora[@]}" --steps 60 --set train.lr=0.01 \
        --set 'train.freeze=embed.*, head.*, *norm*, attention.*, expert.*, shared*' --set train.log_every=1 \
        --set train.eval_batches=2
    for run in all router; do
        grep '"split":"train"' $run/metrics.jsonl | sed 's/.*"task_loss":\([0-9.]*\).*/\1/' |
            awk '{ x[NR] = $1 } END { exit !(NR == 60 && x[60] < x[1] - 0.5) }'
        "$MOEFW" ckpt verify $run
        run "$MOEFW" generate $run --prompt a -n 4 --temp 0 -q
        [ "$status" -eq 0 ]
    done
    # what is frozen keeps its weights
    run "$MOEFW" ckpt diff swapped all
    [ "$(grep -c 'other values' <<<"$output")" -eq 0 ]
    [ "$(grep -c '\.lora\.attention\.[qkvo]\.[ab]: only in the second' <<<"$output")" -eq 24 ]
    run "$MOEFW" ckpt diff swapped router
    [ "$(grep 'other values' <<<"$output" | grep -vc '\.router\.')" -eq 0 ]
    [ "$(grep -c '\.router\.\(keys\|query\): other values' <<<"$output")" -eq 6 ]
    "$MOEFW" export peft all -o adapter
    grep -q '"r":4' adapter/adapter_config.json
}

@test "--report writes a page with the numbers of each layer" {
    run "$MOEFW" swap run --router mlp:hidden=16 --match 2 -o new --report page.html --json "${small[@]}"
    [ "$status" -eq 0 ]
    [[ "$output" == '{"router":"mlp:hidden=16",'* ]]
    grep -q '<h1>Another router in a trained model' page.html
    loss=$(values loss_after)
    grep -q "$(printf %.4f "$loss")" page.html
    for id in table figures load repeat; do grep -q "id=\"$id\"" page.html; done
    grep -q 'moefw swap run --router mlp:hidden=16 --match 2 --match-lr 0.01 --batches 2 --set ' page.html
    [ "$(grep -o '<svg' page.html | wc -l)" -eq 4 ]
    run "$MOEFW" swap run --router mlp --report nowhere/page.html -o other "${small[@]}"
    [ "$status" -ne 0 ]
}

@test "only the router changes: the weights of everything else are those of the old run" {
    "$MOEFW" swap run --router mlp:hidden=16 --match 3 -o new "${small[@]}"
    "$MOEFW" swap new --router linear --fresh -o other "${small[@]}"
    "$MOEFW" swap run --router linear --fresh -o same "${small[@]}"
    cmp other/ckpt/step-0/model.safetensors same/ckpt/step-0/model.safetensors
    cmp run/ckpt/step-0/model.safetensors same/ckpt/step-0/model.safetensors && false
    grep -q '^top_k = 2' new/config.ini
    "$MOEFW" swap run --router linear --set moe.top_k=1 -o one "${small[@]}"
    grep -q '^top_k = 1' one/config.ini
}

@test "a swapped run is evaluated, generates, is trained, compared and swapped again" {
    run "$MOEFW" swap run --router attention -o new "${small[@]}"
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = new ]
    [[ "${lines[-2]}" == "KL of predictions "*", loss "*" -> "* ]]
    loss=${lines[-2]##* }
    run "$MOEFW" eval new --batches 2 --json
    [ "$status" -eq 0 ]
    [[ "$output" == *"\"task_loss\":${loss%?}"* ]]
    run "$MOEFW" generate new --prompt All -n 4 --temp 0 -q
    [[ "$output" == All* ]]
    # its configuration begins with its weights
    "$MOEFW" train new/config.ini --out trained -q -t 1 --steps 1 --set train.lr=1e-12 --set train.eval_batches=2
    run "$MOEFW" eval trained --batches 2 --json
    [[ "$output" == *"\"task_loss\":${loss%??}"* ]]
    "$MOEFW" compare new/config.ini --routers linear:train.from=run,attention --seeds 2 --steps 2 --out both \
        -q -t 1 --set train.eval_batches=1
    grep -q '"attention"' both/comparison.json
    "$MOEFW" swap new --router mlp -o again "${small[@]}"
    # the name of a run that is not given
    run "$MOEFW" swap run/ --router mlp:hidden=8 "${small[@]}"
    [ "${lines[-1]}" = runs/run-mlp-1 ]
    # a blank before "=" changes nothing: the old model, too, gets shorter sequences
    "$MOEFW" swap run --router linear -o shorter "${small[@]}" --set 'model.seq =16'
}

@test "--layers swaps some routers, and a later swap others" {
    run "$MOEFW" swap run --router mlp:hidden=16 --layers 1 --match 2 -o one --json "${small[@]}"
    [ "$status" -eq 0 ]
    [ "$(values swapped)" = $'false\ntrue' ]
    [ "$(values kl | head -n 1)" = 0 ]
    values kl | awk 'NR == 2 { exit !($1 > 0) }'
    grep -q '^plugin = linear' one/config.ini
    grep -A 3 '^\[router.swap1\]' one/config.ini | grep -q '^layers = 1'
    run "$MOEFW" swap one --router attention --layers 0 -o two --json "${small[@]}"
    [ "$status" -eq 0 ]
    [ "$(values swapped)" = $'true\nfalse' ]
    [ "$(values kl | tail -n 1)" = 0 ]
    "$MOEFW" config check two
    run "$MOEFW" generate two --prompt All -n 4 --temp 0 -q
    [[ "$output" == All* ]]
    # the last section counts: linear everywhere again
    "$MOEFW" swap two --router linear --fresh -o three "${small[@]}"
    "$MOEFW" swap run --router linear --fresh -o same "${small[@]}"
    cmp three/ckpt/step-0/model.safetensors same/ckpt/step-0/model.safetensors
    refused 2 "--layers 7: none of them has a router" run --router mlp --layers 7
    refused 2 "--layers: expected all, or numbers of blocks from 0 as 2-5 or 0,3, found 'x'" run --router mlp --layers x
}

@test "import --upcycle makes experts of dense blocks, with the same predictions" {
    gpt2=$srcdir/tests/golden/pretrained/gpt2
    "$MOEFW" import "$gpt2/hf" -o dense -q -t 1
    "$MOEFW" import "$gpt2/hf" --upcycle experts=4,top_k=2,moe.gate_scale=1 -o experts -q -t 1
    grep -q '^experts = 4' experts/config.ini
    for run in dense experts; do
        "$MOEFW" eval $run --tokens "$gpt2/golden.safetensors" --save $run.out | awk '{ print $5 }' >$run.loss
        "$MOEFW" generate $run --prompt All -n 40 --temp 0 -q >$run.text
    done
    paste dense.loss experts.loss | awk '{ d = $1 - $2; exit !($1 > 1 && d * d < 1e-10) }'
    cmp dense.text experts.text
    "$MOEFW" swap experts --router mlp --match 1 -o other -t 1 -q --batches 1 \
        --set data.path='builtin:topics?bytes=40000'
    run "$MOEFW" export hf experts -o back
    [ "$status" -eq 3 ]
    [[ "$output" == *"cannot be said in any published form: the nearest, "* ]]
    for wrong in experts=4 experts=4,top_k experts=4,k=2 ''; do
        run "$MOEFW" import "$gpt2/hf" --upcycle "$wrong" -o none
        [ "$status" -eq 2 ]
        [[ "$output" == *"--upcycle: expected experts=N,top_k=K, or SECTION.KEY=VALUE, found "* ]]
        [ ! -e none ]
    done
    run "$MOEFW" import "$gpt2/hf" --upcycle experts=2,top_k=4 -o none
    [ "$status" -eq 2 ]
    [ ! -e none ]
    run "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" --upcycle experts=4,top_k=2 -o none
    [ "$status" -eq 2 ]
    [[ "$output" == *"has experts already" ]]
}

@test "import --upcycle with experts of low rank: only their changes and the router learn" {
    hf=$srcdir/tests/golden/pretrained/gpt2/hf
    "$MOEFW" import "$hf" -o plain -q -t 1
    "$MOEFW" import "$hf" --upcycle experts=4,top_k=2,expert.plugin=lora_experts,expert.rank=2 -o low -q -t 1
    for run in plain low; do
        "$MOEFW" generate $run --prompt All -n 30 --temp 0 -q -t 1 >$run.text
    done
    cmp plain.text low.text
    "$MOEFW" train low/config.ini -q -t 1 --steps 2 --out tuned --set train.batch=1 --set model.seq=32 \
        --set data.path='builtin:topics?bytes=20000' --set train.eval_every=0 --set train.eval_context=0
    run "$MOEFW" ckpt diff low tuned
    grep -q 'expert\.lora\.w1\.b: other values' <<<"$output"
    grep -q 'router\.weight: other values' <<<"$output"
    run ! grep -vE '\.expert\.lora\.|\.router\.|differ in' <<<"$output"
}

# refused STATUS TEXT ARGUMENT...: the swap fails, and leaves no run
refused() {
    want=$1 text=$2
    shift 2
    run "$MOEFW" swap "$@" -o none "${small[@]}"
    [ "$status" -eq "$want" ] && [[ "$output" == *"$text"* ]] && [ ! -e none ] && return
    echo "status $status, expected $want with: $text"
    echo "$output"
    return 1
}

@test "an empty directory that was there is empty again after a swap that failed" {
    mkdir here
    run "$MOEFW" swap run --router mlp --match 1 --data missing -o here
    [ "$status" -ne 0 ]
    [ -z "$(ls -A here | grep -v '^\.lock$')" ]
}

@test "what cannot be swapped or fitted is refused, and leaves no run" {
    refused 2 "swap wants --router PLUGIN" run
    refused 2 "--router: unknown router plugin 'mpl'; did you mean 'mlp'?" run --router mpl
    refused 2 "--router: unknown key 'hide' in [router] (plugin mlp); did you mean 'hidden'?" run --router mlp:hide=3
    refused 2 "the new router has no parameters that could be fitted" run --router hash --match 1
    ${CC:-cc} -std=gnu11 -I"$srcdir/include" -I"$builddir/include" -fPIC -fvisibility=hidden -shared \
        -o own_choice.so "$srcdir/tests/plugins/third_party/own_choice.c"
    refused 2 "layer 0: the new router has no probabilities, so nothing can be fitted" run --match 1 \
        --router ./own_choice.so
    refused 5 "the fit of the routers diverged on batch 1; a smaller --match-lr may help" run --match 1 \
        --router ./own_choice.so:huge=yes
    refused 2 "looking at the whole sequence" run --router expert_choice
    refused 3 "there is no such run" nothing --router mlp
    refused 3 "cannot be read from a file as it is stored" run --router mlp --set moe.experts=2
    "$MOEFW" import "$srcdir/tests/golden/pretrained/gpt2/hf" -o dense -q -t 1
    small=(-t 1)
    refused 2 "dense: the model has no routers" dense --router mlp
    run "$MOEFW" swap run --router mlp -o run "${small[@]}"
    [ "$status" -eq 2 ]
    [[ "$output" == *"holds files already"* && "$output" != *"--resume"* ]]
    "$MOEFW" ckpt verify run
}

@test "share/repeat/swap.sh swaps, fits and compares routers, and goes on where it ended" {
    command=("$srcdir/share/repeat/swap.sh" --model "$srcdir/tests/golden/pretrained/qwen2_moe/hf" --out out
        --routers "linear,mlp:hidden=8" --match 2 --steps 2 --seeds 2 --seq 16 --batch 2 --threads 1)
    run "${command[@]}"
    [ "$status" -eq 0 ]
    [ "$(grep -c '^| mlp:hidden=8 | [012] | ' <<<"$output")" -eq 3 ]
    [ "$(grep -c '^| linear | ' <<<"$output")" -eq 3 ]
    grep -q 'mlp:hidden=8+train.from=out/runs/mlp-hidden-8 ' <<<"$output"
    [ -s out/runs/linear.html ]
    first=$output
    run "${command[@]}"
    [ "$(grep -c . <<<"$output")" -gt 6 ]
    [ "$(grep '^|' <<<"$first")" = "$(grep '^|' <<<"$output")" ]
    run "$srcdir/share/repeat/swap.sh" --model nowhere
    [ "$status" -eq 3 ]
}

@test "the losses that swap and quantize tell are those of eval, also with train.eval_context" {
    # value KEY: the number with this key in the JSON in $output
    value() { grep -oE "\"$1\":[^],}]*" <<<"$output" | head -1 | cut -d: -f2; }
    # near A B: whether both are the same number, but for rounding
    near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-4 && d > -1e-4) }'; }
    "$MOEFW" train run/config.ini "${small[@]:0:9}" --set train.eval_context=16 --steps 1 -o tuned >&2
    run --separate-stderr "$MOEFW" eval tuned --json -t 1 -q --batches 3
    loss=$(value task_loss)
    run --separate-stderr "$MOEFW" swap tuned --router linear -o swapped --json -t 1 -q --batches 3
    near "$loss" "$(value loss_before)"
    run --separate-stderr "$MOEFW" quantize tuned -o new --group 32 --json -t 1 -q --batches 3
    near "$loss" "$(value loss_before)"
    run --separate-stderr "$MOEFW" swap tuned --set train.eval_context=0 --router linear -o whole --json -t 1 -q --batches 3
    [ "$status" -ne 0 ] || ! near "$loss" "$(value loss_before)"
}

@test "the script of the fine-tuning: lines with their padding, each router, losses of tenths of the steps" {
    printf 'ab ab\n\nba "quoted" \\ ab\nabab\n' >text
    again() {
        MOEFW="$MOEFW" "$srcdir/share/repeat/qwen.sh" --data text --model "$srcdir/tests/golden/pretrained/qwen2_moe/hf" --lines 4 \
            --seq 24 --pad 3 --steps 5 --seeds 1,2 --routers own,linear,attention --threads 1 --out out "$@"
    }
    again >table 2>log || { cat log; return 1; }
    cmp table out/table.md
    # a line has 24 ids of 4 bytes; the second one is empty, so all of it is padding
    [ "$(wc -c <out/lines.bin)" -eq 384 ]
    [ "$(od -An -v -tu4 -j 96 -N 96 out/lines.bin | tr -s ' ' '\n' | grep . | sort -u)" = 3 ]
    printf abab >abab
    ids=$("$MOEFW" tokenize encode out/runs/base/tokenizer.json abab)
    [ "$(od -An -v -tu4 -j 288 -N 96 out/lines.bin | tr -s ' \n' ' ' | sed 's/^ //; s/\( 3\)* *$//')" = "$ids" ]
    [ "$(wc -l <out/lines.jsonl)" -eq 3 ]
    [ "$(grep -cE '^\| (own|linear|attention) \| .* \|( [0-9.]+ ± [0-9.]+ \|){5}$' table)" -eq 6 ] || { cat table; return 1; }
    # the first loss in the table is the mean over seeds of that step
    for seed in 1 2; do
        head -n 1 out/runs/tuned-padded-linear-$seed/metrics.jsonl | sed 's/.*"task_loss":\([0-9.]*\).*/\1/'
    done | awk '{ s += $1 } END { printf "%.4f\n", s / 2 }' >mean
    grep -qF "| linear | 1.9086 .1569 .0027 .0009 .0006 | $(cat mean) ± " table || { cat mean table; return 1; }
    # only changes of low rank learn: those of attention, and of the new router's query
    run "$MOEFW" ckpt diff out/runs/attention-1 out/runs/tuned-padded-attention-1
    [ "$(grep -c 'other values' <<<"$output")" -eq 0 ]
    [ "$(grep -c '\.lora\.router\.query\.[ab]: only in the second' <<<"$output")" -eq 6 ]
    # nothing is trained twice
    again >table2 2>log
    cmp table table2
    if grep -q 'val loss' log; then return 1; fi
    run again --routers own,other
    [ "$status" -eq 2 ]
    [[ "$output" == *"'other' is none of own, linear, attention, attention8"* ]]
    run again --lines 9
    [ "$status" -eq 3 ]
}
