# Plugins and presets on the CUDA backend, on libraries that stand for those of CUDA: under
# device.strict nothing runs on the host. The lists are those of the program, so a new plugin is
# among them.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/fake_cuda.bash"

setup_file() {
    make_fake_cuda
}

setup() {
    use_fake_cuda 1
}

tiny="--set model.dim=16 --set model.layers=1 --set model.heads=2 --set expert.hidden=8 --set moe.experts=4
    --set train.eval_context=0"

# plugins KIND: names of the plugins of the project of this kind
plugins() {
    local file
    for file in "$builddir/plugins/$1"/*.so; do basename "$file" .so; done
}

# strictly WORDS...: a step on the device and a validation, in which no op may run on the host
strictly() {
    # shellcheck disable=SC2086
    on cuda train default -q $small $text $tiny --steps 1 --set device.strict=yes \
        --set moe.force_causal=yes "$@"
}

# Routers with ops of their own whose code is for the CPU alone: they run on the host, in whole steps.
on_host=" base lapsum sparsemixer "

@test "no router, no expert needs the host, but those that are known" {
    n=0
    for name in $(plugins routers); do
        if [[ "$on_host" == *" $name "* ]]; then
            run strictly --plugin "routers/$name.so" --out "router-$name"
            [ "$status" -ne 0 ]
            [[ "$output" == *"(layers.0.router $name) has no launch function for device cuda"* ]]
            continue
        fi
        # hash is that of make fake-cuda, whose kernel the emulator runs
        run strictly --plugin "routers/$name.so" --out "router-$name"
        [ "$status" -eq 0 ] || { echo "$name: $output"; return 1; }
        n=$((n + 1))
    done
    [ "$n" -gt 15 ]
    for name in $(plugins experts); do
        run strictly --plugin "experts/$name.so" --out "expert-$name"
        [ "$status" -eq 0 ] || { echo "$name: $output"; return 1; }
    done
}

@test "no regularizer and no adapter needs the host" {
    all=()
    for name in $(plugins regularizers); do all+=(--set "regularizer.$name.plugin=$name"); done
    [ "${#all[@]}" -gt 16 ]
    strictly "${all[@]}" --set adapter.g.plugin=head_gates --out regularizers
    grep -q '"z_loss"' regularizers/metrics.jsonl
    all=(--set "adapter.lora.at=*" --set adapter.film.at=expert_out)
    for name in $(plugins adapters); do all+=(--set "adapter.$name.plugin=$name"); done
    [ "${#all[@]}" -gt 12 ]
    strictly "${all[@]}" --set model.layers=2 --out adapters
}

@test "no controller needs the host, and what controllers change is what they change on the CPU" {
    all=(--set controller.schedule.target=train.lr --set controller.schedule.from=0.01
        --set controller.schedule.to=0.001 --set controller.prune.share=0.25 --set controller.prune.at=2
        --set controller.expert_bias.rate=0.1 --set adapter.gates.plugin=head_gates)
    for name in $(plugins controllers); do
        # this one repeats the changes of a run
        [ "$name" = replay_changes ] || all+=(--set "controller.$name.plugin=$name")
    done
    [ "${#all[@]}" -gt 26 ]
    for device in cpu cuda; do
        # shellcheck disable=SC2086
        on $device train default -q $small $text $tiny --steps 6 --set device.strict=yes --set train.eval_every=3 \
            --set moe.force_causal=yes --set moe.capacity_factor=1 "${all[@]}" --out $device
        grep -oE '"step":[0-9]+,"option":"[^"]*"' $device/metrics.jsonl >$device.changes
    done
    for option in train.lr moe.capacity_factor layers.0.attention.active.0; do grep -q "$option" cpu.changes; done
    cmp cpu.changes cuda.changes
    close_to cpu cuda 6 1e-5 # of expert_bias, too, which writes a buffer after each step
    # shellcheck disable=SC2086
    on cuda train default -q $small $text $tiny --steps 6 --set controller.again.plugin=replay_changes \
        --set controller.again.file="$PWD/cuda/metrics.jsonl" --set adapter.gates.plugin=head_gates \
        --set moe.capacity_factor=1 --set device.strict=yes --out again
}

@test "no preset needs the host: one of three, in the slow group all" {
    printf 'fine film\tpos\ndull plot\tneg\nfine scene ends\tpos\nso dull\tneg\n' >train.tsv
    printf '%s\t%s\t%s\t%s\t%s\n' pair_ID sentence_A sentence_B relatedness_score entailment_judgment >sick.tsv
    for i in 1 2 3 4; do printf '%s\tthe cook stirs\tthe cook rests\t%s\tNEUTRAL\n' "$i" "$i.5" >>sick.tsv; done
    "$MOEFW" data synth -o text.txt --bytes 20000 >/dev/null
    n=0 each=3
    [ -z "${MOEFW_SLOW-}" ] || each=1
    for preset in $("$MOEFW" config presets); do
        n=$((n + 1))
        [ $((n % each)) -eq 0 ] || continue
        sizes="--set model.dim=16" layers=1
        case $preset in
        tagat* | vanilla*)
            data="--data train.tsv --set data.val_path=train.tsv --set model.vocab=auto --set model.classes=auto" ;;
        sentinel-as-run) data="$text --set data.format=text" layers=2 ;; # has skips between layers
        sick) data="--data sick.tsv --set data.val_path=sick.tsv --set model.vocab=auto" ;;
        lamoe*) data="--data text.txt --set data.format=text --set data.tokenizer=byte --set data.val_path= --set model.vocab=auto
            --set model.heads=4 --set expert.hidden=16" ;;
        *) data="$text --set data.format=text" sizes="$sizes --set model.heads=4 --set expert.hidden=16" ;;
        esac
        # shellcheck disable=SC2086
        run on cuda train "$preset" -q $small $data $sizes --set model.layers=$layers --set train.epochs=0 --set train.steps=1 \
            --set train.eval_context=0 --set device.strict=yes --out "$preset"
        [ "$status" -eq 0 ] || { echo "$preset: $output"; return 1; }
    done
    [ "$n" -gt 25 ]
}
