# moe.latent: experts between two linear layers, which change the width of rows.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    . "$srcdir/tests/lib/ranks.bash"
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

latent=(--set moe.latent=16 --set moe.latent_norm=rmsnorm --set moe.shared_experts=1)

@test "2 and 4 ranks, ranks that share the experts, and a resume have the same bits" {
    ranks_setup
    equal "2 4" default "${latent[@]}" --set block.1.latent=8
    more=(--set parallel.expert=2)
    equal "2" default "${latent[@]}" --set block.1.latent=8
    equal "2" default "${latent[@]}" --set expert.plugin=mlp --set train.dtype=bf16 --set moe.capacity_factor=1
    thin first default "${latent[@]}"
    "$MOEFW" "${words[@]}"
    cp -r first again
    rm -r again/ckpt/step-6
    echo step-3 >again/ckpt/latest
    "$MOEFW" train again --resume -q -t 1
    cmp first/ckpt/step-6/model.safetensors again/ckpt/step-6/model.safetensors
}

@test "other optimizers, recomputed values, shared layers, adapters at its linear layers" {
    for set in train.optimizer=muon train.recompute=block model.share_layers=yes train.dtype=bf16; do
        thin "run-${set##*=}" default "${latent[@]}" --set $set
        "$MOEFW" "${words[@]}"
    done
    thin lora default "${latent[@]}" --set adapter.lora.plugin=lora --set adapter.lora.at=moe.down,moe.up \
        --set "train.freeze=*"
    "$MOEFW" "${words[@]}"
    grep -aq 'layers.0.lora.moe.down' lora/ckpt/step-6/model.safetensors
    thin film default "${latent[@]}" --set adapter.film.plugin=film
    "$MOEFW" "${words[@]}"
    thin tap default "${latent[@]}" --set adapter.film.plugin=film --set adapter.film.condition=embedding
    "$MOEFW" "${words[@]}"
}

@test "a text, a plan and a report of such a model" {
    thin one default "${latent[@]}"
    "$MOEFW" "${words[@]}"
    "$MOEFW" generate one -p abc -n 5 -q >text
    [ -s text ]
    cp "$srcdir/share/cluster/measured.ini" c.ini
    "$MOEFW" plan one/config.ini --cluster c.ini --set train.accumulate=8 --json >plan.json
    "$MOEFW" report one -o one.html -q
}

@test "an adapter of expert outputs that was built with headers of 0.2 does not know their width" {
    mkdir -p old/moefw
    cp "$srcdir"/include/moefw/*.h old/moefw
    sed -i '/since 0.3: sums over a step/,/(\*layer_dims)/d' old/moefw/host.h
    ${CC:-cc} -std=gnu11 -fPIC -fvisibility=hidden -shared -Iold -I"$builddir/include" -o film.so \
        "$srcdir/plugins/adapters/film.c" -lm
    thin x default "${latent[@]}" --set adapter.film.plugin="$PWD/film.so"
    run "$MOEFW" "${words[@]}"
    refused 2 'moe.latent: expected a plugin that was built with headers of 0.3 or newer'
    thin x default --set adapter.film.plugin="$PWD/film.so"
    "$MOEFW" "${words[@]}"
}

@test "refusals" {
    thin x default --set moe.latent=33
    run "$MOEFW" "${words[@]}"
    refused 2 'latent.*expected at most model.dim (32), found 33'
    thin x default --set block.1.latent=33
    run "$MOEFW" "${words[@]}"
    refused 2 'latent.*expected at most model.dim (32), found 33'
    thin x default --set moe.latent_norm=rmsnorm
    run "$MOEFW" "${words[@]}"
    refused 2 'latent_norm.*it is about moe.latent, which is 0 here'
    "$MOEFW" import "$srcdir/tests/golden/pretrained/mixtral/hf" -o imported -q -t 1
    run "$MOEFW" import "$srcdir/tests/golden/pretrained/families/mistral/hf" -o up -q -t 1 \
        --upcycle experts=2,top_k=1,moe.latent=16
    [ "$status" -ne 0 ]
    [[ "$output" == *"the dense model has no values for layers.0.moe.down.weight"* ]]
    sed -i 's/^latent = 0/latent = 16/' imported/config.ini
    run "$MOEFW" export hf imported -o out
    [ "$status" -ne 0 ]
    [[ "$output" == *"latent"* ]]
}
