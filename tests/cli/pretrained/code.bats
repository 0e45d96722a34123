# moefw export hf --with-code: the folder with its own code of a run that no published form can say, here of a router of
# the user's own; what has no function of the text is refused. That PyTorch computes the same from it is checked by
# tests/golden/code/check.py.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
    cat >small.ini <<'INI'
[model]
dim = 16
layers = 2
heads = 2
seq = 16
[moe]
experts = 4
top_k = 2
[expert]
plugin = swiglu
hidden = 8
[data]
path = builtin:topics?bytes=20000
[train]
steps = 2
batch = 2
eval_batches = 2
INI
}

train() { "$MOEFW" train small.ini -q -t 1 --out run "$@"; }

@test "a router of the user's own leaves with the run" {
    "$MOEFW" plugin new router mine
    make -C mine CPPFLAGS="-I$srcdir/include -I$builddir/include" >/dev/null
    train --plugin mine/mine.so
    run "$MOEFW" export hf run -o folder --plugin mine/mine.so
    [ "$status" -eq 3 ]
    [[ "$output" == *"cannot be said in any published form"*"'moefw export hf --with-code'"* ]]
    [ ! -e folder ]
    "$MOEFW" export hf run --with-code -o folder --plugin mine/mine.so
    [ "$(cd folder && echo *)" = "README.md config.json configuration_moefw.py generation_config.json model.safetensors modeling_moefw.py ops_moefw.py tokenizer.json tokenizer_config.json" ]
    for f in configuration modeling ops; do cmp "$srcdir/share/code/${f}_moefw.py" "folder/${f}_moefw.py"; done
    grep -q '"AutoModelForCausalLM":"modeling_moefw.MoefwForCausalLM"' folder/config.json
    grep -q '"at":"layers.1.router mine"' folder/config.json
    grep -q 'trust_remote_code=True' folder/README.md
    # each tensor that the graph names is in the file of the weights, and no other
    grep -o '"tensor":"[^"]*"' folder/config.json | sed 's/.*:"//; s/"//' | sort -u >named
    head -c 4000 folder/model.safetensors | tr '{}' '\n\n' | LC_ALL=C grep -ao '"[a-z0-9_.]*":$' | tr -d '":' | sort | grep -v metadata >written
    diff named written
    [ "$(wc -l <named)" -ge 15 ]
    # the words of the code and of the graph agree: every op has a function
    grep -o '"op":"[^"]*"' folder/config.json | sed 's/.*:"//; s/"//' | sort -u | while read -r op; do
        grep -q "^def op_$op(" folder/ops_moefw.py || { echo "no op_$op"; exit 1; }
    done
}

@test "what has no function of the text is refused, and nothing is written" {
    train --plugin routers/random.so
    run "$MOEFW" export hf run --with-code -o folder
    [ "$status" -eq 3 ]
    [[ "$output" == "moefw: --with-code: layers.0.router random: op uniform draws random numbers in evaluation"* ]]
    [ ! -e folder ]
    [ ! -e folder.tmp ]
    run "$MOEFW" export hf run --with-code --as mixtral -o folder
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: --with-code goes without --as" ]]
    mkdir folder
    run "$MOEFW" export hf run --with-code -o folder
    [ "$status" -eq 2 ]
    [[ "$output" == *"folder: exists already; expected a new folder" ]]
}
