# The command line: help, usage errors, and what is generated from the tables.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

# refused STATUS WORDS... -- ARGUMENTS...: ends with that status, prints nothing on stdout and the
# words on stderr
refused() {
    local want=$1 words=()
    shift
    while [ "$1" != -- ]; do
        words+=("$1")
        shift
    done
    shift
    run bash -c 'exec "$@" 2>err' refused "$MOEFW" "$@"
    [ "$status" -eq "$want" ] || { echo "status $status, expected $want"; cat err; return 1; }
    [ -z "$output" ] || { echo "stdout: $output"; return 1; }
    for word in "${words[@]}"; do
        grep -qF -- "$word" err || { echo "stderr lacks '$word':"; cat err; return 1; }
    done
    [ "$(grep -c '^moefw: ' err)" -eq 1 ]
}

verbs() {
    "$MOEFW" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

@test "--version is short and in GNU form" {
    run "$MOEFW" --version
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" =~ ^moefw\ [0-9]+\.[0-9]+ ]]
    [ "$("$MOEFW" -V)" = "$output" ]
    [[ "$("$MOEFW" --version --json)" == '{"name":"moefw","version":"'[0-9]*'"}' ]]
    [ "$("$MOEFW" --json --version)" = "$("$MOEFW" --version --json)" ]
}

@test "--help lists verbs and exit codes, on stdout" {
    run "$MOEFW" --help
    [ "$status" -eq 0 ]
    [[ "$output" == *"completion"* && "$output" == *"Exit status"* ]]
    [ "$(awk 'length > 80' <<<"$output" | wc -l)" -eq 0 ]
    [ "$("$MOEFW" -h)" = "$output" ]
    [ "$("$MOEFW" help)" = "$output" ]
}

@test "every verb has the same help in three ways, no line over 80 columns" {
    [ "$(verbs | wc -l)" -ge 2 ]
    for verb in $(verbs); do
        run "$MOEFW" "$verb" --help
        [ "$status" -eq 0 ]
        [[ "${lines[0]}" == "Usage: moefw $verb"* ]]
        [ "$("$MOEFW" --help "$verb")" = "$output" ]
        [ "$("$MOEFW" help "$verb")" = "$output" ]
        [ -z "$("$MOEFW" "$verb" --help | awk 'length > 80')" ]
    done
}

@test "options also have the names of other programs" {
    [[ "$("$MOEFW" train --help)" == *"also"*"--train-file"* ]]
    [[ "$("$MOEFW" generate --help)" == *"also"*"--temperature"* ]]
    refused 2 "did you mean '--train-file'?" -- train --train-fiel=x
    refused 2 "unknown option '--model-path'; it is an operand: 'moefw generate RUN|CHECKPOINT'" -- generate --model-path x
    refused 2 "unknown option '--model_path'" "'moefw generate RUN|CHECKPOINT'" -- generate --model_path=x -p a
    refused 2 "unknown option '--config'; it is an operand: 'moefw train [CONFIG|PRESET" -- train --config x
    refused 2 "unknown option '--config'; 'moefw generate --help' lists them" -- generate --config x
    printf 'a text of some words\n%.0s' 1 2 3 4 5 6 7 8 9 >train.txt
    cp train.txt val.txt
    "$MOEFW" tokenize train char train.txt -o v.json
    "$MOEFW" train -q -t 1 --train-file train.txt --val_file val.txt --vocab-file ./v.json --steps 1 --out run \
        --set model.layers=1 --set model.dim=8 --set model.heads=2 --set model.seq=8 --set train.batch=2 \
        --set train.eval_context=0
    for line in "path = $PWD/train.txt" "val_path = $PWD/val.txt" "tokenizer = $PWD/v.json"; do
        grep -qxF "$line" run/config.ini || { echo "$line"; return 1; }
    done
}

@test "global options come before or after the verb" {
    a=$("$MOEFW" --set model.layers=7 config show)
    b=$("$MOEFW" config --set=model.layers=7 show)
    c=$("$MOEFW" config show --set model.layers=7 -q)
    [ "$a" = "$b" ]
    [ "$a" = "$c" ]
    [[ "$a" == *"layers = 7"* ]]
}

@test "an option for a key sets that key" {
    "$MOEFW" config show -t 3 --device cuda:1 | grep -qx 'threads = 3'
    "$MOEFW" config show -t 3 --device cuda:1 | grep -qx 'device = cuda:1'
    refused 2 --device gpu0 -- config show --device gpu0
}

@test "unknown verbs and options name the nearest" {
    refused 2 "unknown verb 'confg'" "'config'" -- confg show
    refused 2 "unknown verb 'my.ini'" "moefw train my.ini" -- my.ini
    refused 2 "unknown verb 'zzqqyy'; 'moefw --help' lists them" -- zzqqyy
    refused 2 "unknown option '--jsn'" "'--json'" -- config show --jsn
    refused 2 "unknown option '--jsn'" "'--json'" -- --jsn config show
    refused 2 "unknown option '-Z'" "--help" -- config show -Z
    refused 2 "--verbose" "--version" ambiguous -- config show --ver
    refused 2 "takes no argument" -- config show --json=yes
    refused 2 "wants an argument" "SECTION.KEY=VALUE" -- config show --set
    refused 2 "wants an argument" -- config show -t
    refused 2 "whole number" "'many'" -- config show -t many
    refused 2 "-t" "-1" -- config show -t -1
    refused 2 "unknown action 'shaw'" "'show'" -- config shaw
    refused 2 "show, check" -- config
    refused 2 "one operand too many: 'b'" -- config show a b
    refused 2 "bash|zsh|fish" -- completion
    refused 2 "unknown shell 'tcsh'" -- completion tcsh
}

@test "control characters of names do not reach the terminal" {
    run bash -c '"$MOEFW" config show "$1"' _ $'a\033[2Jb.ini'
    [ "$status" -eq 2 ]
    [[ "$output" == *"a?[2Jb.ini"* ]]
    [[ "$output" != *$'\033'* ]]
    printf '[data]\npath = a\xc2\x9b2Jb.txt\n' >c1.ini
    run "$MOEFW" config show c1.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"c1.ini:2: control character U+009B at column 9: expected text" ]]
    [[ "$output" != *$'\302\233'* ]]
}

# on_terminal ARGUMENTS: what the program writes to a terminal, without the colours that are its own
on_terminal() {
    printf '%q ' "$MOEFW" "$@" >call
    TERM=dumb script -qec "bash call" /dev/null </dev/null
}

@test "no verb writes control characters of names and files to a terminal" {
    script --version >/dev/null 2>&1 || skip "no script(1)"
    odd=$'N\e[31m\xc2\x9b\xe2\x80\xae'
    tiny=(-q -t 1 --set data.path='builtin:topics?bytes=20000' --set model.dim=8 --set model.heads=1
        --set model.kv_heads=0 --set model.seq=8 --set train.batch=2 --set train.eval_batches=1
        --set train.eval_context=0 --steps 1)
    printf '27 91 51 49 109 194 155 226 128 174 226 128' >ids
    {
        on_terminal train "${tiny[@]}" --out "$odd"
        on_terminal report "$odd" -o "$odd.html"
        on_terminal export csv "$odd" -o "$odd.csv"
        on_terminal export mlflow "$odd" -q -o "$odd.mlruns"
        on_terminal plugin new router mine "$odd.new"
        on_terminal trace record "$odd" -q --batches 1 -o "$odd.trace"
        on_terminal swap "$odd" --router hash -q -o "$odd.hash"
        on_terminal generate "$odd" --baseline "$odd" -p a -n 1 --samples 2 --quality -q
        on_terminal tokenize decode byte ids
    } >written
    ! LC_ALL=C grep -q $'\e\|\xc2\x9b\|\xe2\x80\xae' written || { cat -v written; false; }
    for name in "" .html .csv .new .trace .hash; do
        grep -qF "N?[31m??$name"$'\r' written || { echo "lacks $name"; cat -v written; false; }
        [ -e "$odd$name" ]
    done
    grep -q $'^?\\[31m??\xef\xbf\xbd' written # the last character is cut off
    # a script gets names as they are
    [ "$("$MOEFW" export csv "$odd" -o "$odd.2")" = "$odd.2" ]
    "$MOEFW" tokenize decode byte ids | cmp - <(printf '\e[31m\xc2\x9b\xe2\x80\xae\xef\xbf\xbd\xef\xbf\xbd\n')
}

@test "an option of another action is refused, not ignored" {
    refused 2 "'moefw tokenize encode' takes no --trainer, which is an option of: train" -- \
        tokenize encode byte text --trainer lamoe
    refused 2 "takes no --format, which is an option of: train, export" -- tokenize decode byte ids --format=lamoe
    refused 2 "'moefw bench routers' takes no --tokens" "generate, layer" -- bench routers --tokens 8
    refused 2 "'moefw ckpt ls' takes no --step" -- ckpt ls run --step 1
    refused 2 "'moefw export csv' takes no --scalars" -- export csv run --scalars
    refused 2 "'moefw data info' takes no --topics" -- data info builtin:topics --topics 3
    refused 2 "'moefw config check' takes no --template" -- config check --template
}

@test "-- ends the options" {
    refused 2 "--json: there is no such file, and no such preset in " -- config show -- --json
}

@test "results that cannot be written are an error; a closed pipe is not" {
    [ -w /dev/full ] || skip "no /dev/full"
    run bash -c '"$MOEFW" config show >/dev/full'
    [ "$status" -eq 1 ]
    [[ "$output" == *"standard output"* ]]
    run bash -c '"$MOEFW" config show --template | head -1 2>&1'
    [ "${#lines[@]}" -eq 1 ]
    # If nobody reads, the program ends as others do: by the signal.
    run bash -c 'exec 9> >(:); wait $!; "$MOEFW" config show >&9'
    [ "$status" -eq $((128 + $(kill -l PIPE))) ]
    run bash -c '"$MOEFW" data synth --bytes 100000 >/dev/full'
    [ "$status" -eq 1 ]
    [ "$output" = "moefw: stdout: cannot write: No space left on device" ]
}

@test "closed standard descriptors are no problem" {
    run bash -c '"$MOEFW" config show <&- 2>&-'
    [ "$status" -eq 0 ]
}

@test "each verb runs under valgrind in tests/memcheck.sh" {
    for verb in $(verbs); do
        grep -Eq "^ *check $verb( |$)" "$srcdir/tests/memcheck.sh" || { echo "$verb is missing"; false; }
    done
}

@test "--json is honoured or refused by every verb" {
    export COLUMNS=80
    tiny=(--steps 2 -q --set data.path='builtin:topics?bytes=20000' --set model.dim=8 --set model.heads=1 --set model.seq=8
        --set train.batch=2 --set train.eval_batches=1 --set train.eval_context=0)
    [ "$("$MOEFW" train "${tiny[@]}" --json --out run)" = '{"run":"run"}' ]
    [ "$("$MOEFW" report run --json)" = '{"report":"run/report.html"}' ]
    [ "$("$MOEFW" export csv run --json -o table.csv)" = '{"export":"table.csv"}' ]
    [[ "$("$MOEFW" export mlflow run --json -q)" == '{"export":"mlruns/'*'"}' ]]
    [ "$("$MOEFW" trace record run --json -q --batches 1 -o t)" = '{"trace":"t"}' ]
    [ "$("$MOEFW" plugin new router mine --json -q)" = '{"folder":"mine"}' ]
    "$MOEFW" config presets --json | grep -qx '{"preset":"switch-plus"}'
    refused 2 "--json: what this writes to stdout is CSV" -- export csv run --json
    refused 2 "is INI" -- config show --json
    refused 2 "is DOT" -- graph run --json
    refused 2 "is a shell script" -- completion bash --json
    refused 2 "is the text" -- tokenize decode byte ids --json
    refused 2 "one operand too many: 'more'" -- completion bash more
    refused 2 "no words of kind 'verbs'" -- completion words verbs
}

@test "bash completes verbs, actions, options, choices and presets" {
    PATH="$(dirname "$MOEFW"):$PATH"
    eval "$("$MOEFW" completion bash)"
    complete_words() {
        set +e
        COMP_WORDS=(moefw "$@")
        COMP_CWORD=$#
        COMPREPLY=()
        _moefw
        printf '%s\n' "${COMPREPLY[@]}"
    }
    complete_words conf | grep -qx config
    complete_words config sh | grep -qx show
    complete_words config show def | grep -qx default
    complete_words config --js | grep -qx -- --json
    complete_words --js | grep -qx -- --json
    touch here.ini
    complete_words config show he | grep -qx here.ini
    for verb in $(verbs); do
        complete_words "" | grep -qx "$verb"
    done
}

@test "bash completes keys, their values, plugins by kind and runs" {
    PATH="$(dirname "$MOEFW"):$PATH"
    cd "$BATS_TEST_TMPDIR"
    mkdir -p runs/mine-1 && touch runs/mine-1/config.ini
    eval "$("$MOEFW" completion bash)"
    # typed LINE: the words that are offered at its end, as readline would cut it
    typed() {
        set +e
        COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
        read -ra COMP_WORDS <<<"${1//=/ = }"
        [[ $1 == *[\ =] ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _moefw
        printf '%s\n' "${COMPREPLY[@]}"
    }
    typed "moefw train --set model.no" | grep -qx 'model.norm='
    [ "$(typed "moefw train --set model.norm=r")" = rmsnorm ]
    [ "$(typed "moefw train --set=model.norm=r")" = rmsnorm ]
    [ "$(typed "moefw train --set train.lr=")" = \
        "$("$MOEFW" config show --template | sed -n '/^\[train\]/,/^\[/s/^;lr = //p')" ] # a number: its default
    [ "$(typed "moefw train --set moe.unit_gates=" | tr "\n" " ")" = "yes no " ]
    typed "moefw train --set router.plugin=" | grep -qx hadamard
    run ! grep -qx swiglu <(typed "moefw train --set router.plugin=")
    typed "moefw train --set expert.plugin=" | grep -qx swiglu
    typed "moefw plugin info simb" | grep -qx simbal
    typed "moefw trace replay x y --router had" | grep -qx hadamard
    typed "moefw eval ru" | grep -qx runs/mine-1
    typed "moefw generate ru" | grep -qx runs/mine-1
    # searches, lists, runs, new plugins and tokenizers
    typed "moefw compare --grid train.opt" | grep -qx 'train.optimizer='
    typed "moefw compare --grid train.optimizer=adamw,l" | grep -qx adamw,lion
    typed "moefw compare --draw=train.lr" | grep -qx 'train.lr='
    typed "moefw compare --routers linear,hy" | grep -qx linear,hybrid
    [ "$(typed "moefw compare --baseline linea")" = linear ]
    typed "moefw runs --rank val" | grep -qx val_loss
    typed "moefw runs --where router" | grep -qx 'router='
    typed "moefw runs --show step,tok" | grep -qx step,tokens_per_s
    typed "moefw plugin new rou" | grep -qx router
    typed "moefw plugin new o" | grep -qx op
    typed "moefw tokenize train bpe" | grep -qx bpe_bytes
    for verb in compare:--grid compare:--halving compare:--budget compare:--trial-seeds runs:--diff \
        quantize:--gptq swap:--match import:--upcycle export:--unmerged; do
        typed "moefw ${verb%:*} ${verb#*:}" | grep -qx -- "${verb#*:}" || { echo "$verb"; return 1; }
    done
    for action in hf peft gguf mlflow csv; do typed "moefw export $action" | grep -qx $action; done
    typed "moefw presets --" | grep -qx -- --json
}

@test "help: no line broken twice, choices once, options of an action alone" {
    for verb in $(verbs); do
        "$MOEFW" "$verb" --help >help
        [ "$(awk 'length > 79' help)" = "" ]
        # a full line is not followed by a rest of it and then by a new beginning
        awk 'f && length($0) < 25 && length($0) > 0 && !/^ / && !/[.:]$/ { print FILENAME ": " $0; bad = 1 }
            { f = length($0) > 70 && !/^ / } END { exit bad }' help || { echo "$verb"; return 1; }
    done
    "$MOEFW" eval --help >help
    run ! grep -q 'f32, bf16' help
    "$MOEFW" trace diff --help >help
    grep -q -- --tolerance help
    grep -q -- --json help
    run ! grep -q -- --activations help
    "$MOEFW" trace --help | grep -q -- --activations
}

@test "zsh and fish accept their completions" {
    "$MOEFW" completion zsh | head -1 | grep -qx '#compdef moefw'
    "$MOEFW" completion fish | grep -q '^complete -c moefw '
    for verb in $(verbs); do
        "$MOEFW" completion zsh | grep -q "^    $verb)"
        "$MOEFW" completion fish | grep -q "__moefw_verb -a $verb "
    done
}

@test "fish completes verbs, actions, options, choices and presets" {
    command -v fish >/dev/null || skip "no fish"
    cd "$BATS_TEST_TMPDIR"
    "$MOEFW" completion fish >moefw.fish
    PATH="$(dirname "$MOEFW"):$PATH"
    offered() { fish --no-config -c "source moefw.fish; complete -C '$1'" | cut -f 1; }
    offered "moefw tr" >out
    [ "$(tr '\n' ' ' <out)" = "trace train " ]
    # a value before the verb; a verb's name as the action of another verb
    offered "moefw --set model.dim=8 tr" | diff - out
    offered "moefw train sw" | grep -qx switch-as-run
    offered "moefw bench " | grep -qx train
    offered "moefw bench train --" | grep -qx -- --threads
    ! offered "moefw bench train --" | grep -qx -- --resume || false
    ! offered "moefw tokenize train " | grep -qx switch || false
    ! offered "moefw tokenize train " | grep -qx decode || false
    offered "moefw eval --split " | grep -qx val
    [ "$(offered "moefw completion " | tr '\n' ' ')" = "bash fish zsh " ]
    touch here.bin
    offered "moefw data info he" | grep -qx here.bin
    mkdir -p runs/mine-1 && touch runs/mine-1/config.ini
    offered "moefw train --set model.no" | grep -qx model.norm=
    [ "$(offered "moefw train --set model.norm=r")" = model.norm=rmsnorm ]
    offered "moefw train --set router.plugin=h" | grep -qx router.plugin=hadamard
    offered "moefw plugin info simb" | grep -qx simbal
    offered "moefw generate ru" | grep -qx runs/mine-1
    offered "moefw compare --grid train.opt" | grep -qx train.optimizer=
    offered "moefw compare --grid=train.optimizer=adamw,l" | grep -qx -- --grid=train.optimizer=adamw,lion
    offered "moefw compare --routers linear,hy" | grep -qx linear,hybrid
    offered "moefw runs --rank val" | grep -qx val_loss
    offered "moefw runs --where rout" | grep -qx router=
    offered "moefw plugin new rou" | grep -qx router
    offered "moefw tokenize train bpe" | grep -qx bpe_bytes
    offered "moefw compare --hal" | grep -qx -- --halving
    offered "moefw export g" | grep -qx gguf
}

@test "zsh completes verbs, actions, options, choices and presets" {
    command -v zsh >/dev/null || skip "no zsh"
    cd "$BATS_TEST_TMPDIR"
    mkdir functions
    "$MOEFW" completion zsh >functions/_moefw
    cat >offered.zsh <<'END'
# A shell on its own terminal, whose compadd prints its arguments.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=($PWD/functions \$fpath); autoload -U compinit; compinit -D -u; bindkey '^I' complete-word"
zpty -w shell "zstyle ':completion:*' insert-tab false; zstyle ':completion:*' verbose no"
zpty -w shell "compadd() { if [[ \$* != *-[OAD]\ * ]]; then local -a hits; builtin compadd -A hits \"\$@\"
    print -rl -- \$hits >>$PWD/hits; fi; builtin compadd \"\$@\"; }"
# The key after the completion tells that it has ended.
zpty -w shell "mark() { : >$PWD/done }; zle -N mark; bindkey '^X' mark"
rm -f ready done
zpty -w shell "print READY >$PWD/ready"
for ((i = 0; i < 1000; i++)); do [[ -s ready ]] && break; sleep 0.1; done
: >hits
zpty -w -n shell "$1"$'\t\x18'
for ((i = 0; i < 3000; i++)); do sleep 0.1; [[ -e done ]] && break; done
zpty -d shell
sort -u hits
END
    PATH="$(dirname "$MOEFW"):$PATH"
    offered() { zsh -f offered.zsh "$1"; }
    [ "$(offered "moefw --set model.dim=8 tr" | grep . | tr '\n' ' ')" = "trace train " ]
    offered "moefw train switch-as" | grep -qx switch-as-run
    offered "moefw bench " | grep -qx gemm
    offered "moefw eval --split=" | grep -qx val
    [ "$(offered "moefw completion " | grep . | tr '\n' ' ')" = "bash fish zsh " ]
    mkdir -p runs/mine-1 && touch runs/mine-1/config.ini
    offered "moefw train --set=model.no" | grep -qx model.norm
    [ "$(offered "moefw train --set model.norm=r" | grep .)" = rmsnorm ]
    offered "moefw plugin info simb" | grep -qx simbal
    offered "moefw generate runs/m" | grep -qx runs/mine-1
    offered "moefw compare --grid=train.opt" | grep -qx train.optimizer
    [ "$(offered "moefw compare --grid train.optimizer=adamw,l" | grep .)" = lion ]
    offered "moefw compare --routers=linear,hyb" | grep -qx hybrid
    offered "moefw runs --rank=val" | grep -qx val_loss
    offered "moefw plugin new rout" | grep -qx router
    for option in grid= draw= budget= trial-seeds= halving diff gptq= unmerged; do grep -q "'\*--$option\[" functions/_moefw; done
}

@test "missing features exit 6, a wrong environment 2, missing data 3" {
    run "$MOEFW" train --device cuda
    [ "$status" -eq 6 ]
    MOEFW_KERNELS=blas run "$MOEFW" train
    [ "$status" -eq 2 ]
    [[ "$output" == *"cpu or ref"*"blas"* ]]
    MOEFW_ISA=sse run "$MOEFW" plugin check linear
    [ "$status" -eq 2 ]
    MOEFW_GEMM=mkl run "$MOEFW" plugin check linear
    [ "$status" -eq 2 ]
    [[ "$output" == *"own or openblas"*"mkl"* ]]
    for what in gemm stored comm infer train; do
        refused 2 "--repetitions=0: expected at least 1 for bench $what" -- bench $what --repetitions 0
    done
    run "$MOEFW" train --data nowhere.txt
    [ "$status" -eq 3 ]
    [[ "$output" == *"nowhere.txt"* ]]
    [ ! -e runs ]
}

@test "the list of plugins fits 80 columns" {
    "$MOEFW" plugin list >list
    [ "$(awk 'length > 79' list)" = "" ]
    [ "$(grep -cE '^  [a-z]' list)" -gt 30 ]
}

# names SECTION: the plugins that plugin_groups.ini names there
names() {
    sed -n "/^\[$1\]/,/^\[/s/^[a-zA-Z-]* = //p" "$srcdir/share/plugin_groups.ini" | tr -d ' ' | tr , '\n' | sort
}

@test "the list of plugins has groups: every plugin of the program is in one, and in no other" {
    "$MOEFW" plugin list >list
    for kind in routers experts regularizers controllers; do
        ls "$srcdir/plugins/$kind" | sed -n 's/\.c$//p' | sort | diff - <(names $kind)
        grep -q "^$kind: " list
        run ! grep -q "^$kind: others" list
    done
    [ "$(grep -A1 '^routers: fixed' list | tail -1 | awk '{ print $1 }')" = hash ]
    "$MOEFW" plugin list --json | grep -q '"name":"hash","kind":"router",[^{]*"group":"fixed",'
    # a plugin that no group names comes behind the others of its kind
    mkdir -p more/routers
    cp "$builddir/plugins/routers/linear.so" more/routers/another.so
    MOEFW_PLUGIN_PATH=$PWD/more "$MOEFW" plugin list | grep -A1 '^routers: others' | grep -q '^  another '
}

@test "the manual gives a reason for each recommended router, and for no other" {
    list=$(sed -n 's/^recommended = //p' "$srcdir/share/plugin_groups.ini" | tr -d ' ' | tr , '\n')
    [ "$(wc -l <<<"$list")" -gt 5 ]
    reasons=$(sed -n '/^.Sh WHICH ROUTERS TO COMPARE/,/^.El/s/^\.It Cm //p' "$srcdir/man/moefw-routers.7")
    diff <(sort <<<"$list") <(sort <<<"$reasons")
}

@test "--routers recommended is a part of all, in the order of the file" {
    "$MOEFW" bench routers --routers recommended --dim 16 --batch 1 --seq 8 --seeds 1 --repetitions 1 -t 1 -q \
        --no-layer >bench
    awk '$2 == "params" { on = 1; next } $1 == "router" { exit } on { print $1 }' bench | sort | diff - <(names compare)
    [ "$(names compare | comm -23 - <(names routers) | wc -l)" -eq 0 ]
    "$MOEFW" compare default --routers recommended --seeds 1 --steps 1 --out few -q -t 1 --json --set model.dim=16 \
        --set model.layers=1 --set model.seq=16 --set train.batch=2 --set train.eval_batches=1 \
        --set train.eval_context=0 --set data.path='builtin:topics?bytes=8000' >few.json
    [ "$(grep -o '"router":' few.json | wc -l)" -eq "$(names compare | wc -l)" ]
    grep -q '"baseline":"linear"' few.json
    grep -q '"skipped":\[\]' few.json
}

@test "all and recommended stand in a list beside names and files, and what is named twice so is one" {
    small="--dim 16 --batch 1 --seq 8 --seeds 1 --repetitions 1 -t 1 -q --no-layer"
    cp "$builddir/plugins/routers/cosine.so" mine.so
    # shellcheck disable=SC2086
    "$MOEFW" bench routers --routers recommended,linear,./mine.so $small >bench
    found=$(awk '$2 == "params" { on = 1; next } $1 == "router" { exit } on { print $1 }' bench)
    [ "$(wc -l <<<"$found")" -eq $(($(names compare | wc -l) + 1)) ]
    grep -qx './mine.so' <<<"$found"
    [ "$(grep -cx linear <<<"$found")" -eq 1 ]
    # shellcheck disable=SC2086
    run "$MOEFW" bench routers --routers linear,recommended,linear $small
    [ "$status" -eq 2 ]
    [[ "$output" == *"routers: 'linear' is named twice"* ]]
}

@test "help of train names every section of the configuration" {
    help=$("$MOEFW" train --help | tr '\n' ' ' | sed 's/.*The sections are \([^.]*\)\..*/\1/; s/ and /, /')
    sections=$("$MOEFW" config show --template | sed -n 's/^;*\[\([a-z]*\).*\].*/\1/p' | sort -u)
    [ "$(sed 's/ NAME//g; s/, */\n/g' <<<"$help" | sort)" = "$sections" ]
}

@test "bench gemm: the limits of the machine, then each gemm with its speed and its share of them" {
    run -0 "$MOEFW" bench gemm --most 2 --repetitions 1 -t 1
    [[ "${lines[0]}" =~ ^"1 thread(s): registers multiply "([0-9.]+)" GFLOP/s in f32 and "([0-9.]+)" in bf16, " ]]
    f32=${BASH_REMATCH[1]} bf16=${BASH_REMATCH[2]}
    [[ "${lines[1]}" == "form   types   E      m      n      k         ms  GFLOP/s of peak" ]]
    # 2 E m n k operations in these milliseconds; the share is that of the first line
    tail -n +3 <<<"$output" | sed 's/x w^T/xwT/' | awk -v f32="$f32" -v bf16="$bf16" '
        function near(a, b, part) { return a <= b * (1 + part) && b <= a * (1 + part) }
        { peak = $2 == "bf16" ? bf16 : f32 }
        !near(2 * $3 * $4 * $5 * $6 / $7 / 1e6, $8, .05) || !near($8 / peak * 100, $9, .02) || $10 != "%" { print; bad = 1 }
        { types[$2] } END { exit bad || !("f32" in types && "bf16" in types) }'
    run -0 "$MOEFW" bench gemm --most 2 --repetitions 1 -t 1 --json
    [ "$(grep -c '"what":"gemm"' <<<"$output")" -eq 2 ]
    [ "$(grep -c '"types":"bf16"' <<<"$output")" -eq 1 ]
}
