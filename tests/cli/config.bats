# Configurations: a refused one gives file and line, exits with 2 and changes nothing.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR"
}

# refused TEXT WORDS...: the configuration is refused with all of the words.
refused() {
    printf '%b' "$1" >bad.ini
    shift
    run "$MOEFW" config show bad.ini
    [ "$status" -eq 2 ] || { echo "status $status: $output"; return 1; }
    for word; do
        [[ "$output" == *"$word"* ]] || { echo "lacks '$word': $output"; return 1; }
    done
    [ "$(ls)" = bad.ini ]
}

@test "a key in a wrong section: the message names the section that has it" {
    refused '[train]\ntop_k = 1\n' "bad.ini:2: unknown key 'top_k' in [train]; did you mean 'top_k' in [moe]?"
    refused '[data]\nvocab = 512\n' "unknown key 'vocab' in [data]; did you mean 'vocab' in [model]?"
    refused '[moe]\nexpert = 3\n' "unknown key 'expert' in [moe]; did you mean 'experts', or 'plugin' in [expert]?"
    refused '[moe]\nexpert.plugin = mlp\n' "bad.ini:2: key 'expert.plugin': a file has the section on a line of its own; expected plugin below [expert]"
    run "$MOEFW" config check --set router.top_k=1
    [[ "$output" == *"unknown key 'top_k' in [router] (plugin linear); did you mean "*"'moe.top_k'?"* ]]
    run "$MOEFW" config check --set train.top_k=1
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown key 'top_k' in [train]; did you mean 'moe.top_k'?"* ]]
    # a key that several sections have is of none of them
    run "$MOEFW" config check --set train.plugin=linear
    [[ "$output" == *"unknown key 'plugin' in [train]; valid keys: "* ]]
}

@test "a model that is larger than the machine: check warns, train says what it needs and the keys" {
    huge=(--set moe.experts=4096 --set model.dim=2048 --set expert.hidden=65536 --set data.path='builtin:topics?bytes=20000')
    run --separate-stderr "$MOEFW" config check default "${huge[@]}"
    [ "$status" -eq 0 ]
    [[ "$stderr" == "moefw: warning: training needs "*" MiB, and this machine has "*" MiB of memory; "*moe.experts* ]]
    run --separate-stderr "$MOEFW" config check default "${huge[@]}" --json
    [[ "$output" == *'"notes":["training needs '* ]]
    run --separate-stderr "$MOEFW" train default -q "${huge[@]}" --out "$BATS_TEST_TMPDIR/huge"
    [ "$status" -eq 1 ]
    [[ "$stderr" == "moefw: out of memory: no block of "*": training needs "*"this machine has "*"moe.experts, "* ]]
    [ ! -e "$BATS_TEST_TMPDIR/huge" ]
    run --separate-stderr "$MOEFW" config check default
    [ -z "$stderr" ]
}

@test "data files, as train reads them" {
    "$MOEFW" config show switch --data a.txt --val-file b.txt --vocab-file c.json >shown
    grep -qx 'path = a.txt' shown
    grep -qx 'val_path = b.txt' shown
    grep -qx 'tokenizer = c.json' shown
}

@test "unknown section, key and choice: file, line and the nearest name" {
    refused '[model]\nlayrs = 2\n' "bad.ini:2:" "'layrs'" "'layers'"
    refused '\n[tran]\nlr = 1\n' "bad.ini:2:" "[tran]" "[train]"
    refused '[model]\nposition = rop\n' "bad.ini:2:" "'rope'"
}

@test "out of range, not a number, duplicate, no section" {
    refused '[train]\nbeta1 = 1.5\n' "bad.ini:2:" "'beta1'" "from 0 to" "1.5"
    refused '[train]\nbatch = 0\n' "bad.ini:2:" "'batch'"
    refused '[train]\nlr = 1e\n' "bad.ini:2:" "'1e'"
    refused '[train]\nlr = nan\n' "bad.ini:2:" "'nan'"
    refused '[train]\nlr = 1\nlr = 2\n' "bad.ini:3:" "line 2"
    refused 'lr = 1\n' "bad.ini:1:"
    refused '[moe]\nexperts = 2\ntop_k = 3\n' "bad.ini:3:" "experts (2)"
}

@test "files that are not INI" {
    refused '[model]\ndim 64\n' "bad.ini:2:"
    refused '[model\ndim = 64\n' "bad.ini:1:"
    refused '[model]\ndim = 64\0\n' "bad.ini:2:"
    refused "[model]\nx = $(printf '%0300d' 0)\n" "bad.ini:2:" "190"
    run "$MOEFW" config show /
    [ "$status" -eq 2 ]
    run "$MOEFW" config show none.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"none.ini"* ]]
}

@test "plugins and their options are checked" {
    printf '[router]\nplugin = lineer\n' >bad.ini
    run "$MOEFW" config check bad.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.ini:2:"*"'lineer'"*"'linear'"* ]]
    run bash -c '"$MOEFW" config check --json bad.ini'
    [[ "$output" == *'"line":2,"key":"router.plugin"'*'"nearest":"linear"'* ]]
    printf '[router]\nplugin = linear\ntemprature = 2\n' >bad.ini
    run "$MOEFW" config check bad.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.ini:3:"*"'temprature'"*"'temperature'"* ]]
    printf '[router]\nplugin = linear\ntemperature = -2\n' >bad.ini
    run "$MOEFW" config check bad.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.ini:3:"*"'temperature'"*"found '-2'"* ]]
}

@test "--plugin replaces the plugin of its kind; options of the replaced plugin are no error" {
    printf '[router]\nplugin = linear\ntemperature = 2\ninit_std = 0.5\n' >mine.ini
    run "$MOEFW" config show mine.ini --plugin routers/hash.so --set router.hashes=2
    [ "$status" -eq 0 ]
    [[ "$output" == *"plugin = routers/hash.so"*"hashes = 2"* ]]
    [[ "$output" != *"temperature"* ]]
    "$MOEFW" config show mine.ini --plugin z_loss | grep -qx '\[regularizer.z_loss\]'
    run "$MOEFW" config show mine.ini --plugin routers/hsh.so
    [ "$status" -eq 2 ]
    [[ "$output" == *"routers/hsh.so"*"'hash'"* ]]
}

@test "[lora] is the short form of an adapter, with everything else frozen" {
    printf '[lora]\nrank = 4\ntargets = q, o_proj, ffn.w1\nexperts = yes\nrouter = no\n' >short.ini
    printf '[train]\nfreeze = *\n[adapter.lora]\nplugin = lora\nrank = 4\nat = attention.q, attention.o, ffn.w1, expert.*\n' >long.ini
    "$MOEFW" config show short.ini >short
    "$MOEFW" config show long.ini >long
    diff <(sed 1d short) <(sed 1d long)
    grep -q 'at = attention.q, attention.o, ffn.w1, expert' short
    # later sources change it, as any other key; the switches add to the targets
    "$MOEFW" config show short.ini --set lora.router=yes --set lora.targets=head --set train.freeze= >third
    grep -q '^at = head, router.\*, expert.\*$' third
    grep -q '^freeze = ""$' third
    printf '[lora]\nrouter = yes\n' >default.ini
    "$MOEFW" config show default.ini | grep -q '^at = attention.q, attention.v, router.\*$'
    run "$MOEFW" config check short.ini --set lora.router=maybe
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: --set: 'router' in [lora]: expected yes or no, found 'maybe'" ]
    printf '[lora]\nrnak = 4\n' >wrong.ini
    run "$MOEFW" config check wrong.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: wrong.ini:2: unknown key 'rnak' in [lora] (plugin lora); did you mean 'rank'?"* ]]
    run "$MOEFW" config check default --set "lora.targets=$(printf 'layer%d,' $(seq 20))"
    [ "$status" -eq 2 ]
    [[ "$output" == *"'targets' in [lora]: expected at most 160 characters of names"* ]]
}

@test "check --json reports every fault" {
    printf '[model]\nlayrs = 2\n[train]\nlr = -1\n' >bad.ini
    run bash -c '"$MOEFW" config check --json bad.ini 2>err'
    [ "$status" -eq 2 ]
    [ ! -s err ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *'"file":"bad.ini","line":2,"key":"model.layrs"'* ]]
    [[ "$output" == *'"nearest":"layers"'* ]]
    [[ "$output" == *'"line":4,"key":"train.lr"'* ]]
    [[ "$output" == *'"ok":false'* ]]
    printf '[model]\nlayers = 2\n' >good.ini
    run "$MOEFW" config check --json good.ini
    [ "$status" -eq 0 ]
    [[ "$output" == *'"errors":[]'* && "$output" == *'"ok":true'* ]]
    printf '[model]\nlayers\n' >bad.ini
    run "$MOEFW" config check --json bad.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *'"file":"bad.ini","line":2'* ]]
}

@test "the output of show loads to the same configuration" {
    "$MOEFW" config show --set train.lr=0.1 >a.ini
    mkdir run-1
    cp a.ini run-1/config.ini
    "$MOEFW" config show a.ini >b.ini
    "$MOEFW" config show run-1 >c.ini
    diff <(sed 1d a.ini) <(sed 1d b.ini)
    diff <(sed 1d a.ini) <(sed 1d c.ini)
}

@test "every preset is accepted" {
    for preset in $("$MOEFW" config presets); do
        "$MOEFW" config show "$preset" >/dev/null
    done
    [ "$("$MOEFW" config presets | wc -l)" -ge 2 ]
    # the template is itself a file that can be read
    "$MOEFW" config show --template >template.ini
    "$MOEFW" config check template.ini
}

@test "the configuration overrides settings of the user" {
    mkdir moefw
    printf '[train]\nclip = 9\nseed = 8\n' >moefw/moefw.ini
    printf '[train]\nseed = 7\n' >mine.ini
    "$MOEFW" config show mine.ini | grep -qx 'clip = 9'
    "$MOEFW" config show mine.ini | grep -qx 'seed = 7'
    printf '[train]\nclipp = 9\n' >moefw/moefw.ini
    run "$MOEFW" config show mine.ini
    [ "$status" -eq 2 ]
    [[ "$output" == *"moefw/moefw.ini:2:"* ]]
}

@test "a controller whose live option is missing: refused before the run has any file" {
    printf '[data]\npath = builtin:topics\n[controller.capacity]\nevery = 2\n' >capacity.ini
    run "$MOEFW" train capacity.ini --steps 1 --out made
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: capacity.ini:3: [controller.capacity]: live option 'moe.capacity_factor': expected a value above 0; moe.capacity_factor is 0 here" ]
    printf '[data]\npath = builtin:topics\n[controller.c]\nplugin = schedule\ntarget = moe.adaptive_capacity\nfrom = 0.1\nto = 1\n' >adaptive.ini
    run "$MOEFW" config check adaptive.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: adaptive.ini:"*": [controller.c]: live option 'moe.adaptive_capacity': expected a value above 0; moe.adaptive_capacity is 0 here" ]]
    printf '[controller.c]\nplugin = schedule\ntarget = router.temperatur\nfrom = 0\nto = 1\n' >target.ini
    run "$MOEFW" train target.ini --steps 1 --out made
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: target.ini:3: [controller.c]: no live option 'router.temperatur'; did you mean 'router.temperature'? live here: "*train.clip ]]
    run "$MOEFW" config check target.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: target.ini:3: [controller.c]: no live option"* ]]
    "$MOEFW" config check target.ini --json >faults.json || [ $? -eq 2 ]
    grep -q '"file":"target.ini","line":3,' faults.json
    grep -q '"nearest":"router.temperature"' faults.json
    run "$MOEFW" train target.ini --set controller.c.target=train.lrr --steps 1 --out made
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: --set: [controller.c]: no live option 'train.lrr'; did you mean 'train.lr'?"* ]]
    # those of training and of a later section are known
    printf '[controller.late]\nplugin = sentinel\n' >>target.ini
    "$MOEFW" config check target.ini --set controller.c.target=train.lr
    "$MOEFW" config check target.ini --set controller.c.target=controller.late.rate
    [ ! -e made ]
    [ ! -e runs ]
}

@test "a missing key of a plugin is refused where its section begins" {
    printf '[model]\ndim = 32\n[controller.c]\nplugin = schedule\nfrom = 0\nto = 1\n' >bad.ini
    run "$MOEFW" config check bad.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: bad.ini:3: [controller.c] (plugin schedule): key 'target' is missing"* ]]
    run "$MOEFW" config check default --set controller.c.plugin=schedule --set controller.c.from=1 --set controller.c.to=1
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: --set: [controller.c] (plugin schedule): key 'target' is missing"* ]]
}

# faulty TEXT WORDS...: as refused, by `config check`, which loads plugins too; one line
faulty() {
    printf '%b' "$1" >bad.ini
    shift
    run "$MOEFW" config check bad.ini
    [ "$status" -eq 2 ] && [ "${#lines[@]}" -eq 1 ] || { echo "status $status: $output"; return 1; }
    for word; do
        [[ "$output" == *"$word"* ]] || { echo "lacks '$word': $output"; return 1; }
    done
}

@test "messages about [lora] and [film] name the section that was given, and its keys" {
    faulty '[lora]\ntarget = q\n' "bad.ini:2: unknown key 'target' in [lora] (plugin lora); did you mean 'targets'?" \
        "valid keys: rank, alpha, dropout, targets, rslora, router, experts, layers, lr"
    faulty '[lora]\nrank = 0\n' "bad.ini:2: 'rank' in [lora] (plugin lora): out of range"
    "$MOEFW" config check bad.ini --json >faults.json || [ $? -eq 2 ]
    grep -q '"file":"bad.ini","line":2,"key":"lora.rank"' faults.json
    printf '[lora]\ntarget = q\n' >bad.ini
    "$MOEFW" config check bad.ini --json >faults.json || [ $? -eq 2 ]
    grep -q '"key":"lora.target".*"nearest":"targets"' faults.json
    faulty '[film]\nenabled = yes\n' "bad.ini:2: unknown key 'enabled' in [film] (plugin film);"
    faulty '[film]\nmod = shared\n' "bad.ini:2: unknown key 'mod' in [film] (plugin film); did you mean 'mode'?"
    printf '[film]\nmode = shared\n' >good.ini
    run "$MOEFW" config check good.ini
    [ "$status" -eq 0 ]
    [[ "$output" == *"note: good.ini:2: film.mode = shared is now [adapter.film] plugin = film, mode = shared"* ]]
    # old keys of [model] keep their names in messages
    run "$MOEFW" config check default --set model.skip=unet --set model.skip_form=ad
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: --set: 'skip_form' in [model] (plugin unet_skip): expected one of "* ]]
}

@test "unknown sections: short forms, names behind a blank, and the whole list" {
    refused '[lroa]\nrank = 4\n' "did you mean [lora]?"
    refused '[lor]\nrank = 4\n' "did you mean [lora]?"
    refused '[flm]\nmode = shared\n' "did you mean [film]?"
    refused '[regularizer load_balance]\nweight = 1\n' "did you mean [regularizer.load_balance]?"
    refused '[regulariser load_balance]\nweight = 1\n' "did you mean [regularizer.load_balance]?"
    refused '[router z]\nlayers = 0\n' "did you mean [router.z]?"
    refused '[controler.x]\nplugin = capacity\n' "did you mean [controller.NAME]?"
    refused '[routr]\nplugin = linear\n' "did you mean [router]?"
    refused '[nothing_near_this]\na = 1\n' "expected lora, film, model, task.NAME, moe," "trace, parallel, plugin or include"
}

@test "messages of a file name its line: freeze, tokenizer, train.from, cluster" {
    printf 'a text of some words, and some more of them\n%.0s' $(seq 200) >text.txt
    printf '[data]\npath = text.txt\n[train]\nfreeze = embed.weigth\n' >f.ini
    run "$MOEFW" train f.ini --out made
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: f.ini:4: train.freeze: no parameter is called 'embed.weigth'; did you mean 'embed.weight'?" ]
    "$MOEFW" config check f.ini --json >faults.json || [ $? -eq 2 ]
    grep -q '"file":"f.ini","line":4,.*"nearest":"embed.weight"' faults.json
    printf '[data]\npath = text.txt\ntokenizer = bype\n' >f.ini
    run "$MOEFW" train f.ini --out made
    [ "$status" -eq 2 ]
    [[ "$output" == 'moefw: f.ini:3: data.tokenizer: unknown tokenizer "bype": '*"did you mean byte?" ]]
    printf '[data]\npath = text.txt\n[train]\nfrom = r9\n' >f.ini
    run "$MOEFW" train f.ini --out made
    [ "$status" -eq 3 ]
    [[ "$output" == "moefw: f.ini:4: train.from: r9: there is no such run"* ]]
    run "$MOEFW" train default --set train.from=r9 --out made
    [[ "$output" == "moefw: --set: train.from: r9: there is no such run"* ]]
    printf '[rank]\ntflops = 1\n' >c.ini
    run "$MOEFW" plan default --cluster c.ini
    [ "$status" -eq 2 ]
    [[ "$output" == "moefw: c.ini: [cluster]: key 'ranks' is missing"* ]]
    printf '[rank]\ntflops = 1\n[cluster]\n' >c.ini
    run "$MOEFW" plan default --cluster c.ini
    [[ "$output" == "moefw: c.ini:3: [cluster]: key 'ranks' is missing"* ]]
    [ ! -e made ]
}

@test "model.seq and train.eval_context: where both are from" {
    run "$MOEFW" config check default --set model.seq=16
    [ "$status" -eq 2 ]
    [[ "$output" =~ ^"moefw: --set: 'eval_context' in [train]: expected less than model.seq (16, from --set), found 64 (from "[^\ ]*"default.ini:"[0-9]+"); train.eval_context=8 goes with it"$ ]]
    printf '[model]\nseq = 32\n[train]\neval_context = 32\n' >bad.ini
    run "$MOEFW" config check bad.ini
    [ "$output" = "moefw: bad.ini:4: 'eval_context' in [train]: expected less than model.seq (32, from bad.ini:2), found 32 (from bad.ini:4); train.eval_context=16 goes with it" ]
}

@test "check tells all faults, keys that are given twice too" {
    printf '[model]\ndim = 32\nlayrs = 2\ndim = 64\nheads = 0\nseq = x\ndim = 16\n[train]\nlr = -1\nlr = 2\nsteps = 0x\n' >bad.ini
    run "$MOEFW" config check bad.ini
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 8 ]
    [[ "$output" == *"bad.ini:4: key 'dim' of [model] is already given on line 2"* ]]
    [[ "$output" == *"bad.ini:7: key 'dim' of [model] is already given on line 2"* ]]
    [[ "$output" == *"bad.ini:10: key 'lr' of [train] is already given on line 9"* ]]
    "$MOEFW" config check bad.ini --json >faults.json || [ $? -eq 2 ]
    grep -q '"file":"bad.ini","line":4,"key":"model.dim"' faults.json
    # values that [film] and [lora] do not accept hide nothing either
    printf '[film]\nmode = bogus\n[lora]\nrouter = maybe\ntargets = q\n[train]\nlr = x\n' >short.ini
    run "$MOEFW" config check short.ini
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 3 ]
    [ "${lines[0]}" = "moefw: short.ini:2: 'mode' in [film]: expected one of off, per_expert, shared, found 'bogus'" ]
    [ "${lines[1]}" = "moefw: short.ini:4: 'router' in [lora]: expected yes or no, found 'maybe'" ]
    "$MOEFW" config check short.ini --json >faults.json || [ $? -eq 2 ]
    grep -q '"file":"short.ini","line":4,"key":"lora.router"' faults.json
    run "$MOEFW" train bad.ini
    [ "$status" -eq 2 ]
    [ "$output" = "moefw: bad.ini:4: key 'dim' of [model] is already given on line 2" ]
}

# A tiny model, and data for it.
tiny_ini() {
    export OMP_NUM_THREADS=1
    head -c 3000 "$srcdir/README.md" >text.txt
    printf '%s\n' '[model]' dim=16 layers=1 heads=2 seq=16 '[moe]' experts=4 '[data]' path=text.txt \
        '[train]' batch=2 steps=4 warmup=1 eval_batches=2 >t.ini
}

@test "a run's config.ini is complete: settings of the user add nothing to the run" {
    tiny_ini
    mkdir moefw
    "$MOEFW" train t.ini -q --out run
    "$MOEFW" eval run -q --json | sed 's/"\(wall_s\|tokens_per_s\)":[^,}]*//g' >before
    for setting in '[adapter.lora]\nrank = 2' '[lora]\nrank = 2' '[model]\nhead_gates = yes' '[film]\nmode = shared' \
        '[router.x]\nplugin = hash\nlayers = 0' '[model]\nskip = unet' '[task.more]\ntask = regress' \
        '[regularizer.load_balance]' '[controller.zz]\nplugin = capacity' '[model]\ndmi = 3'; do
        printf "$setting\n" >moefw/moefw.ini
        "$MOEFW" eval run -q --json | sed 's/"\(wall_s\|tokens_per_s\)":[^,}]*//g' | cmp - before
        "$MOEFW" generate run -n 2 -q >/dev/null
        "$MOEFW" train --resume run -q >/dev/null
        rm -rf again
        "$MOEFW" train run/config.ini -q --out again >/dev/null
        diff <(tail -n +2 run/config.ini) <(tail -n +2 again/config.ini)
        cmp {run,again}/ckpt/step-4/model.safetensors
    done
    printf '[adapter.lora]\nrank = 2\n' >moefw/moefw.ini
    "$MOEFW" swap run --router hash -o other -q >/dev/null
    [[ "$(MOEFW_KERNELS=ref "$MOEFW" bench generate run --json)" == *'"backend":"ref"'* ]]
    "$MOEFW" trace record run -q >/dev/null
    # copies and standard input are known by the first line, other folders of runs by the manifest
    cp run/config.ini copy.ini
    [ -z "$("$MOEFW" config show copy.ini | grep adapter)" ]
    [ -z "$("$MOEFW" config show - <copy.ini | grep adapter)" ]
    sed -i 1d run/config.ini
    [ -z "$("$MOEFW" config show run | grep adapter)" ]
    # a configuration of the user's own still gets what is set
    "$MOEFW" config show t.ini | grep -qx '\[adapter.lora\]'
}

@test "settings about the machine act on runs whose config.ini lacks them" {
    tiny_ini
    mkdir moefw
    "$MOEFW" train t.ini -q --out run
    sed -i '/^\(mlflow_experiment\|threads\|cache\|lr\) = /d' run/config.ini
    printf '[log]\nmlflow_experiment = zz\n[train]\nthreads = 3\nlr = 0.7\n[data]\ncache = no\n' >moefw/moefw.ini
    "$MOEFW" config show run >shown
    grep -qx 'mlflow_experiment = zz' shown
    grep -qx 'threads = 3' shown
    grep -qx 'cache = no' shown
    grep -qx 'lr = 0.001' shown
    printf '[device]\nstrickt = 1\n' >moefw/moefw.ini
    run "$MOEFW" eval run
    [ "$status" -eq 2 ]
    [[ "$output" == *"moefw/moefw.ini:2:"*"strickt"* ]]
}

@test "the name of a file adds nothing to the config.ini of its runs" {
    tiny_ini
    "$MOEFW" config show t.ini >plain
    for name in $'q\n[regularizer.z]\nplugin = z_loss\n;' $'\xff\xc2\x9b\r' "$(printf '%0240d' 0)"; do
        cp t.ini "$name.ini"
        "$MOEFW" config show "$name.ini" >shown
        [ "$(wc -l <shown)" -eq "$(wc -l <plain)" ]
        diff <(sed 1d plain) <(sed 1d shown)
        "$MOEFW" train "$name.ini" -q --out run
        diff <(sed 1d plain) <(sed 1d run/config.ini)
        # what was written can be read
        [ "$("$MOEFW" train --resume run -q)" = run ]
        rm -r run
    done
    # nor does the name of a run, which is that of its next configuration
    "$MOEFW" train t.ini -q --out $'r\n[regularizer.z]\n;'
    "$MOEFW" config show $'r\n[regularizer.z]\n;' >shown
    diff <(sed 1d plain) <(sed 1d shown)
}
