# Attention heads with gates: controllers that prune heads and bring them back, and ways to look
# at heads.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# small OUT WORDS...: 24 steps of a dense model with 2 layers of 4 heads
small() {
    out=$1
    shift
    "$MOEFW" train -q -t 1 --out "$out" --set data.path='builtin:topics?bytes=20000' \
        --set model.layers=2 --set model.dim=32 --set model.seq=16 --set model.moe_every=0 \
        --set model.head_gates=yes --set train.batch=4 --set train.steps=24 --set train.warmup=2 \
        --set train.eval_every=6 --set train.eval_batches=2 --set train.eval_context=0 \
        --set train.log_every=6 "$@"
}

# The preset's controllers with a short schedule: 3 of 8 heads are pruned by step 12, and come back.
hurry=(--set controller.s.plugin=sentinel --set controller.s.every=2 --set controller.s.rate=20
    --set controller.s.warmup=2 --set controller.s.select=worst --set controller.s.max_pruned=0.4
    --set controller.s.entropy_high=0.1 --set controller.s.keep=1 --set controller.s.grace=100
    --set controller.s.patience=0)
regrow=(--set controller.p.plugin=plateau --set controller.p.patience=1 --set controller.p.min_change=100
    --set controller.p.used=0 --set controller.p.ramp_steps=4 --set controller.h.plugin=head_lr
    --set controller.h.warmup=2 --set controller.h.cooldown=4)

newest() {
    echo "$1/ckpt/$(cat "$1/ckpt/latest")"
}

# figures RUN: metrics.jsonl without times
figures() {
    sed -E 's/"(tokens_per_s|wall_s)":[^,}]*,?//g' "$1/metrics.jsonl"
}

# active RUN: number of active heads at the end
active() {
    tail -1 "$1/metrics.jsonl" | sed -E 's/.*"heads":\{"active":([0-9]+).*/\1/'
}

@test "gates of 1 and no skips: the plain model, bit for bit" {
    small plain --set model.head_gates=no
    small gated --set model.gate_init=40 --set model.skip=unet --set model.skip_scale=0
    [ "$(figures plain | sed -E 's/,"moe":.*//')" = "$(figures gated | sed -E 's/,"moe":.*//')" ]
    run "$MOEFW" ckpt diff plain gated
    ! grep -v 'only in the second\|differ in' <<<"$output" || { echo "$output"; return 1; }
    a=$("$MOEFW" generate plain -q -p "the " -n 12 --temp 0)
    b=$("$MOEFW" generate gated -q -p "the " -n 12 --temp 0)
    [ "$a" = "$b" ]
}

@test "the published code's forms of gates and heads: trained, saved, decoded with and without the cache" {
    local forms=(--set model.attention_out_bias=yes --set model.gate_form=raw --set model.gate_init=1
        --set model.gate_start=middle --set model.gate_bias=yes --set model.head_mean=yes
        --set model.logit_scale=1.25)
    for norm in token batch; do
        small $norm "${forms[@]}" --set model.head_norm=$norm --set regularizer.g.plugin=gate_penalty \
            --set controller.c.plugin=prune --set controller.c.by=spread --set controller.c.share=0.25
        a=$("$MOEFW" generate $norm -q -p "the " -n 24 --temp 0)
        b=$("$MOEFW" generate $norm -q -p "the " -n 24 --temp 0 --no-cache)
        [ "$a" = "$b" ]
        [ "${#a}" -ge 20 ]
    done
    # 8 raw gates of 0.9 to 1; the penalty sums them as they are
    head -1 token/metrics.jsonl | sed -E 's/.*"regularizers":\{"g":([0-9.]*).*/\1/' |
        awk '{ exit !($1 > 7.4 && $1 < 7.6) }'
    # of the remaining heads, each layer's first and two in the middle
    run bash -c 'printf "/gates\n/gate 0 0 0.25\n/gate 1 1 1\n/gates\n" | "$MOEFW" generate token -q -i 2>/dev/null'
    [[ "${lines[0]}" == "layer 0: 3 of 4 heads active, 25 % pruned; gates 0."[89]* ]]
    [ "${lines[3]}" = "layer 0, head 0: gate 0.25000" ]
    [ "${lines[4]}" = "layer 1, head 1: gate 1.00000" ]
    [[ "${lines[5]}" == *"gates 0.250 "* ]]
}

@test "controllers change raw gates by their logits, and bring heads back" {
    small run --set model.gate_form=raw --set model.gate_init=1 "${hurry[@]}" "${regrow[@]}" --set train.steps=60 \
        --set controller.s.clamp=3
    # the logit of a gate of 1 begins at clamp; a call lowers it by 20 x 0.1
    grep -o '"option":"layers.[01].attention.gate.[0-3]","from":[0-9.e-]*,"to":[0-9.e-]*,"by":"controller.s"' run/metrics.jsonl |
        sed -E 's/.*"from":([0-9.e-]*),"to":([0-9.e-]*).*/\1 \2/' |
        awk 'function l(g) { x = g <= 0 ? -3 : g >= 1 ? 3 : log(g / (1 - g)); return x > 3 ? 3 : x < -3 ? -3 : x }
             { n++; d = l($1) - l($2); bad += d < 1.99 || d > 2.01 } END { exit !(n > 3 && bad == 0) }'
    grep -q '"option":"layers.[01].attention.active.[0-3]","from":1,"to":0,"by":"controller.s"' run/metrics.jsonl
    grep -q '"option":"layers.[01].attention.gate.[0-3]","from":[^}]*"to":0.0[01][0-9]*,"by":"controller.p"' run/metrics.jsonl
}

@test "impossible forms are refused before anything runs" {
    while IFS='|' read -r keys expected; do
        local set=()
        for key in $keys; do set+=(--set "model.$key"); done
        run "$MOEFW" config check --set model.moe_every=0 "${set[@]}"
        [ "$status" -eq 2 ] || { echo "$keys: $status $output"; return 1; }
        [[ "$output" == *"$expected"* ]] || { echo "$keys: $output"; return 1; }
    done <<'KEYS'
head_gates=yes gate_form=raw|plugin head_gates): init: raw gates start between 0 and 1 (the published code: 1), found 3
head_gates=yes gate_bias=yes|there is no bias to be gated: expected model.attention_out_bias = yes
head_norm=both|none, token, batch
gate_start=outer|even, middle
gate_form=tanh|sigmoid, raw
logit_scale=0|from 0.001 to 1000
head_mean=maybe|yes
KEYS
}

@test "eval --heads: the importance of each head, for any run with gates" {
    small run "${hurry[@]}" # this run prunes heads
    "$MOEFW" eval run -t 1 --batches 2 --json >plain.json
    "$MOEFW" eval run -t 1 --batches 2 --heads 2 --json >heads.json
    # efficiency: of 3 pruned heads, 3 x 8 x 32 weights for queries, keys and values, 32 x 8 of the
    # output and a gate are unused
    all=$("$MOEFW" config check run/config.ini --json | sed -E 's/.*"params":([0-9]*).*/\1/')
    sed -E 's/.*"ppl":([0-9.]*).*"params_active":([0-9]*),"ppl_per_mparam":([0-9.]*),"parameter_efficiency":([0-9.]*),"ppl_per_head":([0-9.]*),"head_efficiency":([0-9.]*).*/\1 \2 \3 \4 \5 \6/' plain.json |
        awk -v all="$all" 'function same(a, b) { return a / b > 0.999999 && a / b < 1.000001 }
            { exit !($2 == all - 3 * 1025 && same($3, 1e6 * $1 / $2) && same($4, 1e6 / $1 / $2) && same($5, $1 / 5) && same($6, 1 / $1 / 5)) }'
    grep '"split":"val"' run/metrics.jsonl | tail -1 | grep -q '"efficiency":{"params_active":'
    ! grep -q '"grad_norm":\[\|"importance":\[' plain.json || false
    # the rest of the line is the same
    sed -E 's/,"(grad_norm|importance)":\[[^]]*\]//g' heads.json | diff - plain.json
    # 5 of 8 heads have a gradient and an importance from 0 to 1, one of them 1; the others have 0
    for key in active grad_norm importance; do
        grep -o "\"$key\":\[[^]]*\]" heads.json | tr -c '0-9.e\n-' ' ' |
            awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^[0-9]/) print $i }' >$key
        [ "$(wc -l <$key)" -eq 8 ]
    done
    paste active grad_norm importance | awk '
        { if ($1) { n++; bad += !($2 > 0 && $3 >= 0 && $3 <= 1); top += $3 == 1 }
          else bad += $2 != 0 || $3 != 0 }
        END { exit !(n == 5 && top == 1 && bad == 0) }'
    # the same as text
    run "$MOEFW" eval run -t 1 --batches 2 --heads 2
    [ "$(grep -c '^layer [01], head [0-3]: pruned$' <<<"$output")" -eq 3 ]
    [[ "$output" == *"parameter efficiency "*" M parameters in use); perplexity / head "*"(5 of 8 heads)"* ]]
    [ "$(grep -c '^layer [01], head [0-3]: gate 0\.[0-9]*, entropy [0-9.]*, gradient norm [0-9.e-]*, importance [01]\.[0-9]*$' <<<"$output")" -eq 5 ]
    small plain --set model.head_gates=no
    run "$MOEFW" eval plain -t 1 --heads 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"no adapter of this model wants heads to be measured"* ]]
}

@test "the controller prunes, with a reason for every change" {
    small run "${hurry[@]}"
    [ "$(active run)" -eq 5 ] || { tail -1 run/metrics.jsonl; return 1; }
    grep -q '"option":"layers.[01].attention.gate.[0-3]","from":[^}]*"by":"controller.s","reason":"entropy [0-9.]* > 0.1' run/metrics.jsonl
    [ "$(grep -o '"option":"layers.[01].attention.active.[0-3]","from":1,"to":0,"by":"controller.s","reason":"gate [0-9.e-]* < 0.1"' run/metrics.jsonl | wc -l)" -eq 3 ]
    grep -q '"importance":\[' run/metrics.jsonl
    tail -1 run/metrics.jsonl | grep -q '"entropy":\['
    grep '"split":"train"' run/metrics.jsonl | tail -1 | grep -q '"grad_norm":\[0'
    # pruned heads no longer change
    "$MOEFW" eval run -q --json | grep -q '"heads":{"active":5,"total":8'
}

@test "pruned heads come back if the validation loss stalls, and learn faster for a while" {
    small run "${hurry[@]}" "${regrow[@]}"
    grep -q '"to":1,"by":"controller.p","reason":"validation loss' run/metrics.jsonl
    grep -q '"option":"layers.[01].attention.lr_scale.[0-3]","from":[^}]*"by":"controller.h"' run/metrics.jsonl
    grep -q '"by":"controller.p","reason":"came back at step [0-9]*: the end of its ramp"' run/metrics.jsonl
}

@test "heads in reserve: pruned before the first step, active when learning stalls" {
    small run --set controller.c.plugin=prune --set controller.c.by=spread --set controller.c.share=0.25 --set controller.c.at=1 \
        "${regrow[@]}" --set controller.p.grow=2 --set controller.p.start=half
    head -2 run/metrics.jsonl | grep -q '"heads":{"active":6,"total":8'
    [ "$(active run)" -eq 8 ]
    [ "$(grep -o '"option":"layers.[01].attention.gate.3","from":[0-9.]*,"to":0,"by":"controller.p"' run/metrics.jsonl | wc -l)" -eq 2 ]
}

@test "killed after every step, it resumes to the same bits" {
    small whole "${hurry[@]}" "${regrow[@]}"
    small parts "${hurry[@]}" "${regrow[@]}" --set train.time_limit=0.0001 || true
    for _ in $(seq 22); do
        "$MOEFW" train -q --resume parts --set train.time_limit=0.0001 || true
    done
    "$MOEFW" train -q --resume parts --set train.time_limit=0 2>said
    ! grep 'with another' said || false # without experts, no other router is proposed
    cmp "$(newest whole)/model.safetensors" "$(newest parts)/model.safetensors"
    [ "$(figures whole)" = "$(figures parts)" ]
}

@test "the changes of a run are repeated from its metrics, to the same bits" {
    small first "${hurry[@]}" "${regrow[@]}"
    small again --set controller.r.plugin=replay_changes --set controller.r.file=first/metrics.jsonl
    [ "$(active first)" = "$(active again)" ]
    run "$MOEFW" ckpt diff first again
    ! grep -v 'controller\.\|differ in' <<<"$output" || { echo "$output"; return 1; }
    grep -q '"by":"controller.r","reason":"as controller.s did"' again/metrics.jsonl
    # an option that is not there is refused before the first step
    sed -E '/"turns"/s/"option":"[^"]*"/"option":"no.such"/g' first/metrics.jsonl >other.jsonl
    run small fourth --set controller.r.plugin=replay_changes --set controller.r.file=other.jsonl
    [ "$status" -eq 2 ]
    [[ "$output" == *"[controller.r]: no live option 'no.such'; live here: "* ]]
    [ ! -e fourth ]
    # its old name still works
    run small fourth --set controller.r.plugin=replay_changes --set controller.r.file=first
    [ "$status" -eq 2 ]
    [[ "$output" == *"file = first: cannot read: Is a directory"* ]]
    run small third --set controller.r.plugin=replay_turns --set controller.r.file=nowhere.jsonl
    [ "$status" -eq 2 ]
    [[ "$output" == *"nowhere.jsonl: cannot open"* ]]
}

@test "every measure prunes the requested share of heads" {
    for by in gate entropy gradient importance magnitude random spread; do
        small "$by" --set controller.c.plugin=prune --set controller.c.by=$by --set controller.c.share=0.5 \
            --set controller.c.at=3 --set train.steps=6
        [ "$(active "$by")" -eq 4 ] || { echo "$by"; return 1; }
    done
    small none --set controller.c.plugin=prune --set controller.c.share=1 --set train.steps=4
    [ "$(active none)" -eq 0 ]
    "$MOEFW" generate none -q -p "the " -n 4 >/dev/null
}

@test "generation does not compute pruned heads, with and without the cache, with shared keys too" {
    for kv in 4 2; do
        small kv$kv --set model.kv_heads=$kv --set controller.c.plugin=prune --set controller.c.by=random \
            --set controller.c.share=0.375
        a=$("$MOEFW" generate kv$kv -q -p "the " -n 24 --temp 0)
        b=$("$MOEFW" generate kv$kv -q -p "the " -n 24 --temp 0 --no-cache)
        [ "$a" = "$b" ]
        [ "${#a}" -ge 20 ]
    done
}

@test "the penalty on gates is part of the loss, in a dense model too" {
    small run --set regularizer.gates.plugin=gate_penalty --set regularizer.gates.weight=0.01
    head -1 run/metrics.jsonl | grep -qE '"regularizers":\{"gates":7\.6'
    head -1 run/metrics.jsonl | sed -E 's/.*"loss":([0-9.]*),"task_loss":([0-9.]*).*/\1 \2/' |
        awk '{ d = $1 - $2; exit !(d > 0.0761 && d < 0.0763) }'
}

@test "a run starts with the weights of another run" {
    small first
    small second --set train.from=first --set train.steps=2 --set train.lr=0
    a=$(tail -1 first/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    b=$(tail -1 second/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    [ "$a" = "$b" ]
    # gates of another form are converted on loading, and back
    small raw --set train.from=first --set model.gate_form=raw --set model.gate_init=1 --set train.steps=2 --set train.lr=0
    small back --set train.from=raw --set train.steps=2 --set train.lr=0
    c=$(tail -1 raw/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    d=$(tail -1 back/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    awk -v a="$a" -v c="$c" -v d="$d" 'BEGIN { e = a - c; f = a - d; exit !(e * e < 1e-12 && f * f < 1e-12) }' || { echo "$a $c $d"; return 1; }
    [[ "$("$MOEFW" generate raw -q --analyze)" == "layer 0: 4 of 4 heads active, 0 % pruned; gates 0.95"* ]]
    # also where their section is not the first
    two=(--set model.head_gates=no --set adapter.a.plugin=head_mean --set adapter.b.plugin=head_gates)
    small two "${two[@]}"
    small two_raw "${two[@]}" --set train.from=two --set adapter.b.form=raw --set adapter.b.init=1 --set train.steps=2 --set train.lr=0
    a=$(tail -1 two/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    c=$(tail -1 two_raw/metrics.jsonl | sed -E 's/.*"task_loss":([0-9.]*).*/\1/')
    awk -v a="$a" -v c="$c" 'BEGIN { e = a - c; exit !(e * e < 1e-12) }' || { echo "$a $c"; return 1; }
    # those of a layer that the other run lacks have the new form from the start
    small deep --set train.from=first --set model.layers=3 --set model.gate_form=raw --set model.gate_init=1 --set train.steps=2 --set train.lr=0
    run "$MOEFW" generate deep -q --analyze
    [[ "${lines[1]}" == "layer 1: "*"; gates 0.95"* ]]
    [[ "${lines[2]}" == "layer 2: "*"; gates 1.000 1.000 1.000 1.000" ]] || { echo "$output"; return 1; }
    run small third --set train.from=first --set model.dim=64
    [ "$status" -eq 3 ]
    [[ "$output" == *"has F32 [256, 64]"* ]] || { echo "$output"; return 1; }
    run small fourth --set train.from=nowhere
    [ "$status" -eq 3 ]
}

@test "a conversation shows and sets gates" {
    small run --set controller.c.plugin=prune --set controller.c.by=spread --set controller.c.share=0.25
    run bash -c 'printf "/gates\n/gate 0 1 0\n/gate all 2 0.5\n/gate 1 3 1\n/gates\n/exit\n" | "$MOEFW" generate run -q -i 2>/dev/null'
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "layer 0: 3 of 4 heads active, 25 % pruned; gates 0.95"*" -" ]]
    [[ "${lines[2]}" == "all: 6 of 8 heads active, 25 % pruned" ]]
    [ "${lines[3]}" = "layer 0, head 1: gate 0.00005" ]
    [[ "${lines[6]}" == "layer 0: 3 of 4 heads active, 25 % pruned; gates 0.95"*" 0.000 0.500 -" ]]
    [[ "${lines[7]}" == "layer 1: 4 of 4 heads active, 0 % pruned; gates 0.95"*" 0.500 1.000" ]]
}

@test "without a conversation: gates by layer, skips on and off, a second run" {
    small run --set model.skip=unet --set model.skip_form=residual --set model.skip_scale=0 \
        --set controller.c.plugin=prune --set controller.c.by=spread --set controller.c.share=0.25
    small base --set model.head_gates=no
    run "$MOEFW" generate run -q --analyze
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "layer 0: 3 of 4 heads active, 25 % pruned; gates 0.95"*" -" ]]
    [ "${lines[2]}" = "all: 6 of 8 heads active, 25 % pruned" ]
    [ "${lines[3]}" = "skips: off" ]
    [ "${#lines[@]}" -eq 4 ] # and no text
    run "$MOEFW" generate run -q --analyze --json
    [[ "$output" == *'"gates":{"heads":8,"active":6,"low":0,"pruned_percent":25,"layers":[{"layer":0,"heads":4,"active":3,"low":0,"pruned_percent":25,"gate":[0.95'*',null]},{"layer":1,'*'"skips":{"on":false,"scale":0}}' ]]
    # as in a conversation
    off=$("$MOEFW" generate run -q -p "the cook" -n 30 --temp 0)
    on=$("$MOEFW" generate run -q -p "the cook" -n 30 --temp 0 --skip-scale 30)
    talked=$(printf '/skip 30\nthe cook\n' | "$MOEFW" generate run -q -i -n 30 --temp 0 2>/dev/null | tail -1)
    [ "$on" = "the cook$talked" ]
    [ "$on" != "$off" ]
    [[ "$("$MOEFW" generate run -q --enable_unet --analyze)" == *"skips: on, scale 0.1" ]]
    [[ "$("$MOEFW" generate run -q --enable-unet --skip-scale -2 --analyze --json)" == *'"skips":{"on":true,"scale":-2}}' ]]
    run "$MOEFW" generate run -q --baseline base -p "the cook" -n 6 --temp 0 --analyze
    [[ "$output" == "layer 0: "*$'\n[this run]\nthe cook'*$'\n[base]\nthe cook'* ]]
    run bash -c 'printf "the cook\n" | "$MOEFW" generate run -q -i --baseline base --analyze -n 6 2>/dev/null'
    [[ "$output" == "layer 0: "*$'\n[this run]\n'*$'\n[base]\n'* ]]
    for word in --analyze --enable-unet --skip-scale=1; do
        run "$MOEFW" generate base -q $word
        [ "$status" -eq 2 ]
        [[ "$output" == *"(no adapter "*")"* ]]
    done
}

@test "a changed gate changes the next text, and the text so far is kept" {
    small run
    talk() { printf '%b' "$1" | "$MOEFW" generate run -q -i -n 8 --temp 0 2>/dev/null; }
    plain=$(talk 'the cook\nthe sea\n')
    same=$(talk 'the cook\n/gate 0 0 0.9526\nthe sea\n' | grep -v '^layer')
    other=$(talk 'the cook\n/gate all all 0\nthe sea\n' | grep -v '^layer')
    [ "$plain" = "$same" ]
    [ "$(head -1 <<<"$plain")" = "$(head -1 <<<"$other")" ]
}

@test "a conversation switches skips, and keeps a controller's changes" {
    small run --set model.skip=unet --set model.skip_form=residual --set controller.c.plugin=schedule \
        --set controller.c.target=model.skip_scale --set controller.c.from=0.1 --set controller.c.to=0.7 \
        --set controller.c.end=20
    run bash -c 'printf "/skip\n/skip off\nthe cook\n/skip on\n/skip 0.3\nthe sea\n" | "$MOEFW" generate run -q -i -n 4 2>/dev/null | grep ^skips'
    [ "${lines[0]}" = "skips: on, scale 0.7" ]
    [ "${lines[1]}" = "skips: off" ]
    [ "${lines[2]}" = "skips: on, scale 0.1" ]
    [ "${lines[3]}" = "skips: on, scale 0.3" ]
    for word in much 1001 -1001 nan; do
        run bash -c 'printf "/skip %s\n" "$1" | "$MOEFW" generate run -q -i 2>&1' _ $word
        [ "$(grep -c "error: expected on, off or a number from -1000 to 1000, found '$word'$" <<<"$output")" -eq 1 ]
        [[ "$output" != *"skips: "* ]]
    done
}

@test "a conversation shows routing, and a second run" {
    small run --set model.moe_every=1 --set expert.hidden=16
    small base --set model.head_gates=no
    run bash -c 'printf "/route\nthe cook\n/route\n/baseline base\nthe sea\n/baseline off\nthe sea\n" | "$MOEFW" generate run -q -i -n 2 2>/dev/null'
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^.?  +0: [0-7] \(0\.[0-9]+\) [0-7] \(0\.[0-9]+\)  1: ' <<<"$output")" -ge 8 ] || { echo "$output"; return 1; }
    [ "$(grep -c '^layer [01]: share of assignments by expert' <<<"$output")" -eq 2 ]
    [ "$(grep -c '^\[this run\]$' <<<"$output")" -eq 1 ]
    [ "$(grep -c '^\[base\]$' <<<"$output")" -eq 1 ]
}

@test "a mistake in a conversation is reported in one line, and the conversation continues" {
    small run
    while IFS='|' read -r line expected; do
        run bash -c 'printf "%s\nthe\n" "$1" | "$MOEFW" generate run -q -i -n 2 2>&1 >/dev/null' _ "$line"
        [ "$status" -eq 0 ]
        [ "$(grep -c 'error: ' <<<"$output")" -eq 1 ] || { echo "$line: $output"; return 1; }
        [[ "$output" == *"$expected"* ]] || { echo "$line: $output"; return 1; }
    done <<'LINES'
/gat|no command '/gat'; did you mean '/gate'?
/gate|expected /gate LAYER HEAD G
/gate 0 0|expected /gate LAYER HEAD G
/gate 9 0 1|layer: expected all, or 0 to 1, found '9'
/gate 0 x 1|head: expected all, or 0 to 3, found 'x'
/gate 0 0 nan|gate: expected a number from 0 to 1, found 'nan'
/gate 0 0 1.5|gate: expected a number from 0 to 1, found '1.5'
/gate all all -1|gate: expected a number from 0 to 1, found '-1'
/skip on|this model has no skips
/route|this model has no experts
/experts|this model has no experts
/baseline nowhere|there is no such run
/temp hot|expected a number from 0 to 100, found 'hot'
/tokens 0|expected a number from 1 to
/new now|expected /new and nothing behind it
LINES
}

# loss RUN: of its last validation
loss() {
    tail -1 "$1/metrics.jsonl" | sed -E 's/.*"split":"val".*"task_loss":([0-9.]*).*/\1/'
}

# below A B: A is lower than B
below() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }' || { echo "expected $1 < $2"; return 1; }
}

@test "the preset's quick profile learns, and prunes 6 of its 16 heads" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 runs it"
    "$MOEFW" train sentinel-quick -q --out run
    below "$(loss run)" 1.4
    [ "$(active run)" -eq 10 ]
}

@test "a sixth of the quick profile learns, and prunes" {
    "$MOEFW" train sentinel-quick -q -t 1 --out run --set data.path='builtin:topics?bytes=60000' \
        --set model.dim=32 --set model.seq=32 --set train.steps=100 --set train.eval_batches=2 \
        --set controller.sentinel.warmup=20 --set controller.sentinel.every=5 --set controller.sentinel.rate=8
    below "$(loss run)" 3.2
    [ "$(active run)" -eq 10 ]
    # The page counts the remaining parameters, calls the model dense, and has its perplexity.
    left=$(tail -1 run/metrics.jsonl | sed -E 's/.*"params_active":([0-9]*).*/\1/')
    [ "$left" -lt "$(sed -E 's/.*"params_active":([0-9]*).*/\1/' run/manifest.json)" ]
    grep -q "$(awk -v n="$left" 'BEGIN { printf "%.1f k", n / 1000 }') active a token, without pruned heads" run/report.html
    grep -q 'dense, without experts; 2 layers, width 32' run/report.html
    grep -q '<h3>Perplexity</h3>' run/report.html
    # Pruned heads come first, and all changes of one gate share a line.
    sed -n '/id="changes"/,/<\/section>/p' run/report.html >changes
    sed 's/<tr>/\n&/g' changes | grep '<td' >rows
    [ "$(head -6 rows | grep -c 'attention.active')" -eq 6 ]
    [ "$(grep -c 'attention.gate.0<' rows)" -le 2 ]
    [ "$(wc -l <rows)" -le 40 ]
    grep -q "$(grep -o '"option":' run/metrics.jsonl | wc -l) changes, those of an option in one line" changes
}

@test "the published code's rules move gates by thousandths and prune nothing" {
    "$MOEFW" train sentinel-as-run -q -t 1 --out run --set data.path='builtin:topics?bytes=20000' \
        --set data.tokenizer=byte --set model.dim=32 --set model.seq=16 --set train.steps=40 --set train.eval_batches=2 \
        --set controller.sentinel.warmup=5 --set controller.sentinel.every=10 --set controller.unet.end=30
    [ "$(active run)" -eq 32 ]
    grep -q '"step":30,"option":"adapter.skip.scale","from":0,"to":0.1,"by":"controller.unet"' run/metrics.jsonl
    turn=$(grep -o '"option":"layers.0.attention.gate.0","from":[0-9.]*,"to":[0-9.]*' run/metrics.jsonl | head -1)
    sed -E 's/.*"from":([0-9.]*),"to":([0-9.]*)/\1 \2/' <<<"$turn" |
        awk '{ d = log($1 / (1 - $1)) - log($2 / (1 - $2)); exit !(d > 0.0004 && d < 0.0016) }' || { echo "$turn"; return 1; }
}

@test "the script that repeats the published results writes its tables" {
    yes 'the old cook stirs the soup near the oven' | head -200 >text
    MOEFW="$MOEFW" run "$srcdir/share/repeat/sentinel.sh" --data text --out out --steps 12 --more 24 --threads 1 \
        --set model.dim=32 --set model.seq=16 --set model.layers=2 --set train.batch=2 --set train.eval_batches=2
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    grep -q '^| pruned | 36 | 37.5 % | .* | [0-9.]* | [0-9]* | [0-9.]* |$' out/table.md || { cat out/table.md; return 1; }
    [ "$(grep -cE '^\| (first|unpruned|pruned|regrown) \|( [01]\.[0-9]{4} \|){6} -[0-9.]* \|$' out/table.md)" -eq 4 ] || { cat out/table.md; return 1; }
    [ "$(grep -cE '^\| (gate|entropy|gradient|importance|magnitude|random) \|( [0-9]+\.[0-9]{3} \|){4}$' out/table.md)" -eq 6 ] || { cat out/table.md; return 1; }
    [ "$(active out/runs/cut-random-50)" -eq 8 ]
    # the chart has a line for each measure, from the unpruned model to 70 %; the last point by hand
    [ "$(grep -cE '<polyline .* points="70.0,290.0( [0-9.]+,[0-9.]+){4}"/>' out/pruning.svg)" -eq 6 ] || { cat out/pruning.svg; return 1; }
    most=$(awk -F '|' '/^\| (gate|entropy|gradient|importance|magnitude|random) \|( [0-9]+\.[0-9]+ \|){4}$/ { for (i = 3; i < 7; i++) if ($i > m) m = $i + 0 } END { print m }' out/table.md)
    last=$(sed -n 's/^| gate |.* \([0-9.]*\) |$/\1/p' out/table.md)
    none=$(tail -n 1 out/runs/unpruned/metrics.jsonl | sed 's/.*"ppl":\([0-9.]*\).*/\1/')
    y=$(awk -v m="$most" -v l="$last" -v n="$none" 'BEGIN { if (m < 1.01 * n) m = 1.01 * n; printf "%.1f", 290 - 240 * log(l / n) / log(m / n) }')
    sed -n 's/.* 525.0,\([0-9.]*\)"\/>$/\1/p' out/pruning.svg | head -n 1 |
        awk -v y="$y" '{ exit !($1 > y - 0.5 && $1 < y + 0.5) }' || { echo "$y"; cat out/pruning.svg; return 1; }
    # a page of these runs has loss and speed against their shares of pruned heads
    "$MOEFW" report out/runs/unpruned out/runs/cut-gate-{10,30,50,70} -q -o page.html
    grep -qF '<h3>Quality and speed against pruned heads</h3>' page.html
    [ "$(sed -n '/<h3>Quality and speed against pruned heads</,/<\/figure>/p' page.html | grep -c '<circle')" -eq 10 ]
    "$MOEFW" report out/runs/unpruned out/runs/first -q -o page.html
    if grep -qF 'against pruned heads' page.html; then return 1; fi
    grep -q '^| 70 % | [0-9]* | [0-9.]* | [0-9]* | [0-9.]* | 20.21, 20.57 |' out/table.md
    before=$(cat out/table.md)
    MOEFW="$MOEFW" run "$srcdir/share/repeat/sentinel.sh" --data text --out out --steps 12 --more 24 --threads 1 \
        --set model.dim=32 --set model.seq=16 --set model.layers=2 --set train.batch=2 --set train.eval_batches=2
    [ "$before" = "$(cat out/table.md)" ]
}

@test "removing a controller keeps those after it" {
    "$MOEFW" config show sentinel --set controller.sentinel.plugin=none >shown
    grep -q '^plugin = plateau$' shown
    grep -q '^plugin = head_lr$' shown
    ! grep -q '^plugin = sentinel$' shown || false
}
