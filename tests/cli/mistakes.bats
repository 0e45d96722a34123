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
    [[ "$output" == *"config show --template"* ]]
    [ "$(awk 'length > 80' <<<"$output" | wc -l)" -eq 0 ]
}
