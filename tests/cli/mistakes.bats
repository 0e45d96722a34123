# Mistakes that newcomers make, who know nanoGPT, transformers, Megatron-LM or llama.cpp: each is
# answered by the key, option, verb or file that they mean, with the exit code for its kind.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

# answered STATUS WORDS -- ARGUMENTS: one line of error with these words, and nothing written
answered() {
    local status_wanted=$1 words=$2
    shift 3
    run --separate-stderr "$MOEFW" "$@"
    [ "$status" -eq "$status_wanted" ] || { echo "$*: status $status: $stderr"; return 1; }
    [ "${#stderr_lines[@]}" -eq 1 ] || { echo "$*: $stderr"; return 1; }
    [[ "$stderr" == *"$words"* ]] || { echo "$*: expected '$words', found: $stderr"; return 1; }
    [ ! -e runs ] || { echo "$*: left a run behind"; return 1; }
}

@test "options of training programs name the key" {
    answered 2 "did you mean '--set train.lr=1e-4'?" -- train --lr 1e-4
    answered 2 "did you mean '--set train.lr=1e-4'?" -- --lr=1e-4
    answered 2 "did you mean '--set train.lr=3e-4'?" -- train --learning-rate 3e-4
    answered 2 "did you mean '--set train.lr=3e-4'?" -- train --learning_rate=3e-4
    answered 2 "did you mean '--set train.batch=8'?" -- train --batch-size 8
    answered 2 "did you mean '--set train.batch=8'?" -- train --batch_size=8
    answered 2 "did you mean '--set train.epochs=3'?" -- train --epochs 3
    answered 2 "did you mean '--set train.epochs=3'?" -- train --num_train_epochs 3
    answered 2 "did you mean '--steps=10'?" -- train --max_iters 10
    answered 2 "did you mean '--steps=10'?" -- train --max-steps=10
    answered 2 "did you mean '--set train.accumulate=4'?" -- train --gradient_accumulation_steps 4
    answered 2 "did you mean '--set train.weight_decay=0.1'?" -- train --weight-decay 0.1
    answered 2 "did you mean '--set train.weight_decay=0.1'?" -- train --wd 0.1
    answered 2 "did you mean '--set train.clip=1'?" -- train --grad_clip 1
    answered 2 "did you mean '--set train.warmup=100'?" -- train --warmup-steps 100
    answered 2 "did you mean '--set train.dtype=bf16'?" -- train --bf16
    answered 2 "did you mean '--set train.dtype=bf16'?" -- train --dtype bf16
    answered 2 "did you mean '--set train.optimizer=lion'?" -- train --optimizer lion
    answered 2 "did you mean '--set train.eval_every=50'?" -- train --eval_interval 50
    answered 2 "did you mean '--set train.lr=VALUE'?" -- train --lr
}

@test "options of the model name the key" {
    answered 2 "did you mean '--set model.seq=64'?" -- train --ctx 64
    answered 2 "did you mean '--set model.seq=64'?" -- train --block_size=64
    answered 2 "did you mean '--set model.layers=2'?" -- train --n_layer 2
    answered 2 "did you mean '--set model.layers=2'?" -- train --layers 2
    answered 2 "did you mean '--set model.heads=2'?" -- train --num-attention-heads 2
    answered 2 "did you mean '--set model.dim=64'?" -- train --n_embd 64
    answered 2 "did you mean '--set model.dim=64'?" -- train --model.dim 64
    answered 2 "did you mean '--set moe.experts=4'?" -- train --num-experts 4
    answered 2 "did you mean '--set moe.top_k=1'?" -- train --top-k 1
    answered 2 "did you mean '--set router.plugin=mlp'?" -- train --router mlp
}

@test "options of other kinds name the option" {
    answered 2 "did you mean '--out=here'?" -- train --output-dir here
    answered 2 "did you mean '--threads=4'?" -- train --num_workers 4
    answered 2 "did you mean '--device=cuda:0'?" -- train --gpu 0
    answered 2 "did you mean '--tokens=20'?" -- generate run --max_new_tokens 20
    answered 2 "did you mean '--verbose'?" -- train --debug
    answered 2 "moefw export csv RUN" -- train --wandb
    answered 2 "--set log.mlflow=http://HOST:PORT" -- train --mlflow
    answered 2 "--set log.tensorboard=yes" -- train --report_to tensorboard
    answered 2 "it is an operand" -- train --config x.ini
    answered 2 "did you mean '--prompt'?" -- generate run --promt hello
}

@test "keys without their section, and other programs' names of keys" {
    answered 2 "did you mean '--set train.lr=1e-4'?" -- train --set lr=1e-4
    answered 2 "did you mean '--set moe.experts=4'?" -- train --set num_experts=4
    answered 2 "unknown key 'learning_rate' in [train]; did you mean 'lr'?" -- train --set train.learning_rate=1e-4
    answered 2 "did you mean 'moe.experts'?" -- train --set model.num_experts=4
    printf '[train]\nbatch_size = 4\n' >mine.ini
    answered 2 "mine.ini:2: unknown key 'batch_size' in [train]; did you mean 'batch'?" -- train mine.ini
}

@test "verbs of other programs name the command" {
    answered 2 "did you mean 'train'?" -- tarin default
    answered 2 "did you mean 'moefw train'?" -- fit
    answered 2 "did you mean 'moefw generate RUN --interactive'?" -- chat
    answered 2 "did you mean 'moefw eval RUN'?" -- evaluate
    answered 2 "did you mean 'moefw plugin list'?" -- list
    answered 2 "did you mean 'moefw presets'?" -- configs
    answered 2 "did you mean 'moefw runs'?" -- ls
    answered 2 "did you mean 'moefw runs RUN --remove'?" -- rm runs/a-1
    answered 2 "did you mean 'moefw --version'?" -- version
    answered 2 "did you mean 'moefw doctor'?" -- info
}

@test "without arguments the first commands are shown, and nothing begins" {
    run --separate-stderr "$MOEFW"
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
    [[ "${lines[1]}" == *"moefw train "* ]]
    [ "${#lines[@]}" -le 10 ]
    [ ! -e runs ]
}

@test "help of train names the sections and where all keys are" {
    run "$MOEFW" train --help
    [[ "$output" == *"model, moe, router, expert"* ]]
    [[ "${output//$'\n'/ }" == *"config show --template"* ]]
    [ "$(awk 'length > 80' <<<"$output" | wc -l)" -eq 0 ]
}

@test "numbers out of range are answered with the true range" {
    run "$MOEFW" train default --steps 9223372036854775807
    [ "$status" -eq 2 ]
    [[ "$output" == *"--steps: expected 0 to 1000000000000000, found 9223372036854775807"* ]] ||
        [[ "$output" == *"--steps: expected 1 to 1000000000000000, found 9223372036854775807"* ]]
    run "$MOEFW" config check default --set train.steps=9223372036854775807
    [ "$status" -eq 2 ]
    [[ "$output" == *"expected a whole number from 0 to 1e+15, found '9223372036854775807'"* ]]
    run "$MOEFW" config check default --set train.steps=1000000000000000
    [ "$status" -eq 0 ]
}

@test "sections of one kind are counted, and hundreds of layers planned, in seconds" {
    { printf '[model]\nlayers = 1\n'
      for ((i = 0; i < 3000; i++)); do printf '[regularizer.r%d]\nplugin = z_loss\n' $i; done; } >many.ini
    run timeout 20 "$MOEFW" config check many.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"expected at most 256 sections [regularizer.NAME]"* ]]
    # the time is of the processor, so that a busy machine changes nothing: 60 s before, under 2 s now
    (ulimit -t 20; "$MOEFW" config check default -t 1 --set train.eval_context=0 --set model.layers=500 \
        --set model.dim=16 --set model.heads=1 --set model.seq=8 --set expert.hidden=16) | grep -q '^ok: '
}

@test "names from files cannot act on a terminal, nor pretend to be lines" {
    esc=$'\e]0;x\a' rlo=$'\xe2\x80\xae' c1=$'\xc2\x9b'
    printf 'sentence\tlabel\n a b c\t%s\n d e f\tx%sy%s\n a b\t%s\n' "0$esc" "$rlo" "$c1" "0$esc" >odd.tsv
    run "$MOEFW" data info odd.tsv
    [[ "$output" != *$'\e'* && "$output" != *"$rlo"* && "$output" != *"$c1"* ]]
    run "$MOEFW" train $'no\nmoefw: all is well' --steps 1
    [ "$status" -ne 0 ]
    ! grep -qx 'moefw: all is well' <<<"$output" || false
    run "$MOEFW" eval "runs/a${rlo}b${esc}"
    [ "$status" -eq 3 ]
    [[ "$output" != *$'\e'* && "$output" != *"$rlo"* ]]
}

@test "a configuration of too many lines" {
    { echo '[router]'; seq -f 'k%.0f = 1' 40000; } >long.ini
    answered 2 "long.ini:10001: more sections and keys than 10000" -- train long.ini
    [ "$("$MOEFW" config check long.ini --json 2>err | grep -o 'long.ini:[^"]*')" = \
        "long.ini:10001: more sections and keys than 10000, which is the most" ]
}

@test "--set and --plugin of verbs that do not use them are judged, too" {
    "$MOEFW" train default --out run -q -t 1 --set model.dim=16 --set model.layers=2 --set model.heads=2 \
        --set model.kv_heads=2 --set model.seq=16 --set moe.experts=4 --set expert.hidden=16 \
        --set train.batch=2 --set train.steps=1 --set train.eval_batches=1 --set train.final_batches=1 \
        --set train.eval_context=0 --set 'data.path=builtin:topics?bytes=20000' --set data.tokenizer=byte \
        --set report.enabled=no
    answered 2 "--set: unknown section [trian]; did you mean [train]?" -- eval run --set trian.lr=3
    answered 2 "--set: unknown section [bogus]; expected lora, film, model, " -- eval run --set bogus.key=3
    answered 2 "--set: 'nodot': expected SECTION.KEY=VALUE" -- generate run -n 2 --set nodot
    answered 2 "unknown key 'lrr' in [train]; did you mean 'lr'?" -- bench infer run --set train.lrr=1
    answered 2 "unknown key 'temperatur' in [router] (plugin linear); did you mean 'temperature'?" -- \
        trace record run --set router.temperatur=1
    answered 2 "unknown router plugin 'linaer'; did you mean 'linear'?" -- eval run --set router.plugin=linaer
    answered 2 "unknown plugin 'linaer'; did you mean 'linear'?" -- eval run --plugin linaer
    answered 2 "unknown section [trian]; did you mean [train]?" -- doctor --set trian.lr=3
    mkdir -p data/moefw/plugins/routers # a plugin that cannot be loaded has no keys, and hides no others
    echo no >data/moefw/plugins/routers/broken.so
    XDG_DATA_HOME=$PWD/data answered 2 "unknown key 'temperatur' in [router]; did you mean 'temperature'?" -- \
        doctor --set router.temperatur=3
    answered 2 "--set: unknown router plugin 'linaer'; did you mean 'linear'?" -- doctor --set router.plugin=linaer
    answered 2 "unknown plugin 'linaer'; did you mean 'linear'?" -- plugin list --plugin linaer
    answered 2 "--set: 'nodot': expected SECTION.KEY=VALUE" -- runs --set nodot
    # What is right has no effect: verbs of a run say so, others do not use it at all.
    run --separate-stderr "$MOEFW" eval run --set model.dim=8 --set router.temperature=2 --set adapter.more.plugin=none
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"--set=adapter.more.plugin=none is ignored: run has its own configuration"* ]]
    [[ "$stderr" == *"--set=model.dim=8 is ignored: run has its own configuration"* ]]
    [[ "$stderr" == *"--set=router.temperature=2 is ignored: run has its own configuration"* ]]
    # a run whose own plugin is gone has not the one that is given, and cannot be opened
    cp -r run gone
    sed -i 's/^plugin = .*linear.*/plugin = lost/' gone/config.ini
    run --separate-stderr "$MOEFW" eval gone --plugin linear
    [ "$status" -eq 3 ]
    [[ "$stderr" == *"--plugin=linear is ignored: gone has its own configuration"*"unknown router plugin 'lost'"* ]]
    run --separate-stderr "$MOEFW" doctor --set model.heads=3 --set router.temperature=2
    [ "$status" -eq 0 ]
    [ -z "$stderr" ]
}

@test "what fails writes no headings, and other names name the nearest" {
    run --separate-stderr "$MOEFW" bench routers --routers linaer -t 1
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ "$stderr" == *"did you mean 'linear'?"* ]]
    answered 2 "router 'linear:train.lr=1': expected options of the router alone, found 'train.lr=1'" -- \
        bench routers --routers linear:train.lr=1 -t 1
    answered 2 "a prompt of 300 tokens; expected 1 to 128" -- bench generate default --prompt 300 -t 1
    answered 3 "builtin:topicz: there is no such corpus; did you mean 'builtin:topics'?" -- \
        train default --data builtin:topicz
    answered 3 "did you mean 'builtin:topics'?" -- data info 'builtin:topic?bytes=20000'
    run --separate-stderr "$MOEFW" bench gemm --most 1
    [ "$status" -eq 2 ]
    [ -z "$output" ]
    [[ "$stderr" == *"--most=1: the smallest gemm has "*" million multiply-adds"* ]]
}

@test "data, settings and plugins in the place of a configuration" {
    yes 'to be, or not to be' | head -n 50 >input.txt
    printf '{"text":"a"}\n' >lines.jsonl
    mkdir -p texts && cp input.txt texts/
    answered 2 "input.txt is a file of data, no configuration; did you mean 'moefw train --data input.txt'?" -- train input.txt
    answered 2 "did you mean 'moefw train --data lines.jsonl'?" -- train lines.jsonl
    answered 2 "texts is a folder without a config.ini, no configuration; did you mean 'moefw train --data texts'?" -- train texts
    answered 2 "did you mean 'moefw compare --data input.txt'?" -- compare input.txt
    answered 2 "did you mean 'moefw eval RUN --data input.txt'?" -- eval input.txt
    cp "$builddir/plugins/routers/hash.so" mine.so
    answered 2 "did you mean 'moefw train --plugin ./mine.so'?" -- train mine.so
    answered 2 "'train.lr=1e-3' is a setting, no configuration; did you mean --set train.lr=1e-3?" -- train train.lr=1e-3
    answered 2 "did you mean --set train.lr=1e-3?" -- train lr=1e-3
    answered 2 "one operand too many: 'train.lr=1e-3'; did you mean --set train.lr=1e-3?" -- train default train.lr=1e-3
    answered 2 "train.eval_context=32 goes with it" -- train default --set model.seq=64
    # what may be a configuration is read as one
    printf 'dim = 3\n' >wrong.ini
    answered 2 "wrong.ini:1: key 'dim' before any section" -- train wrong.ini
    answered 2 "train.unknown=1: there is no such file" -- train train.unknown=1
    : >empty.ini
    "$MOEFW" config check empty.ini
    printf '\n; a comment\n\n[train]\nsteps = 2\n' >good.ini
    "$MOEFW" config check good.ini
}

@test "runs --where with a key that lacks its section" {
    "$MOEFW" train -q -t 1 --out r --steps 1 --set model.layers=1 --set model.dim=16 --set model.heads=2 --set model.seq=16 \
        --set expert.hidden=16 --set train.eval_context=0 --set report.enabled=no
    answered 2 "'lr': no run here has it; did you mean 'train.lr'?" -- runs . --where lr=1e-3
    answered 2 "did you mean 'model.dim'?" -- runs . --where 'dim>3'
    "$MOEFW" runs . --where model.dim=16 | grep -q '^\(\./\)*r '
}
