# Adapters: sections [adapter.NAME], where they stand, what they may not change, old keys.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$PWD"
}

# A model that trains in a moment; moe in every block.
small() {
    local out=$1
    shift
    "$MOEFW" train default -q -t 1 --out "$out" --set model.dim=16 --set model.layers=2 --set model.heads=4 \
        --set model.kv_heads=2 --set model.seq=16 --set train.batch=2 --set train.steps=3 --set train.log_every=1 \
        --set train.eval_batches=1 --set train.eval_context=0 --set expert.hidden=32 "$@" >/dev/null
}

losses() {
    grep -o '"split":"train","dtype":"f32","loss":[^,]*' "$1/metrics.jsonl"
}

@test "a new lora changes nothing, at any linear layer; trained, it does" {
    small plain --set train.lr=0
    [ "$(losses plain | wc -l)" -eq 3 ]
    for at in attention.q "attention.k, attention.v, attention.o" "router.*" "expert.*" head "*"; do
        rm -rf changed
        small changed --set train.lr=0 --set adapter.low.plugin=lora --set "adapter.low.at=$at"
        [ "$(losses plain)" = "$(losses changed)" ] || { echo "$at"; losses plain; losses changed; return 1; }
    done
    small moved --set adapter.low.plugin=lora --set "adapter.low.at=*" --set train.lr=0.1
    [ "$(losses plain)" != "$(losses moved)" ]
    "$MOEFW" ckpt verify moved
}

@test "lora counts r (in + out) a linear layer, and nothing beside" {
    before=$("$MOEFW" config check default --json | grep -o '"params":[0-9]*')
    after=$("$MOEFW" config check default --set adapter.l.plugin=lora --set adapter.l.rank=4 --set adapter.l.layers=1-2 \
        --json | grep -o '"params":[0-9]*')
    dim=128
    # q and v of two blocks
    [ $((${after#*:} - ${before#*:})) -eq $((2 * 2 * 4 * (dim + dim))) ]
}

@test "lora with heads that are switched off" {
    small run --set adapter.gates.plugin=head_gates --set adapter.low.plugin=lora --set train.steps=6 \
        --set "adapter.low.at=attention.q, attention.k, attention.v, attention.o" --set controller.off.plugin=schedule \
        --set controller.off.target=layers.0.attention.active.1 --set controller.off.from=1 --set controller.off.to=0 \
        --set controller.off.shape=step --set controller.off.end=2
    grep -q '"option":"layers.0.attention.active.1","from":1,"to":0' run/metrics.jsonl
    [ "$(losses run | wc -l)" -eq 6 ]
}

@test "train.freeze: only the adapter learns" {
    small run --set adapter.low.plugin=lora --set "adapter.low.at=attention.*, head" --set "train.freeze=*"
    small still --set adapter.low.plugin=lora --set "adapter.low.at=attention.*, head" --set "train.freeze=*" --set train.lr=0
    run "$MOEFW" ckpt diff run still
    [[ "$output" == *low.attention.q.b* ]]
    ! grep -qE 'qkv|expert|embed|norm' <<<"$output" || { echo "$output"; false; }
    run "$MOEFW" train default --out none --set train.freeze=nothing --steps 1
    [ "$status" -eq 2 ]
    [[ "$output" == *"train.freeze: no parameter is called 'nothing'"* ]]
}

@test "sections stack; the form [adapter NAME] is read" {
    printf '[include]\npreset = default\n[adapter one]\nplugin = film\n[adapter two]\nplugin = film\nmode = shared\n' >two.ini
    run --separate-stderr "$MOEFW" config show two.ini
    [ "$status" -eq 0 ]
    [[ "$output" == *"[adapter.one]"*"at = expert_out"*"[adapter.two]"*"mode = shared"* ]]
}

@test "where an adapter cannot stand, and blocks that are no numbers" {
    while IFS='|' read -r set expected; do
        # The words of an option.
        # shellcheck disable=SC2086
        run "$MOEFW" config check default --set adapter.x.plugin=${set%% *} --set "adapter.x.${set#* }"
        [ "$status" -eq 2 ] || { echo "$set: $status $output"; return 1; }
        [[ "$output" == *"$expected"* ]] || { echo "$set: $output"; return 1; }
    done <<'SETS'
film at=block_in|plugin film cannot stand at 'block_in'; expected expert_out
lora at=attention.w|no linear layer of this model is called 'attention.w'; expected of attention.q
lora at=heads|cannot stand at 'heads'; expected names of linear layers
film layers=first|expected all, or numbers of blocks from 0
unet_skip form=ring|linear, residual
SETS
}

@test "old keys are told by their new names, with file and line" {
    printf '[include]\npreset = default\n[model]\nskip = unet\n[film]\nmode = shared\n' >old.ini
    run --separate-stderr "$MOEFW" config check old.ini
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"note: old.ini:4: model.skip = unet is now [adapter.skip] plugin = unet_skip"* ]]
    [[ "$stderr" == *"note: old.ini:6: film.mode = shared is now [adapter.film] plugin = film, mode = shared"* ]]
    run "$MOEFW" config check old.ini --json
    [[ "$output" == *'"notes":["model.skip = unet is now'* ]]
    # What is written has the new form alone, and loads to the same.
    "$MOEFW" config show old.ini | sed 1d >once.ini
    "$MOEFW" config show once.ini | sed 1d >twice.ini
    cmp once.ini twice.ini
    ! grep -qE '^(skip|film|head_gates)' once.ini || false
}
