# The way of a new user: each command of the documents works as it is printed, in an empty environment, a fresh home and a
# fresh folder, with a plugin that no folder of the installation has. The commands are read out of the documents, so a text that
# changes is walked as it stands; table.tsv says what stands for placeholders, and which commands cannot be walked here.

bats_require_minimum_version 1.5.0

setup_file() {
    if ldd "$builddir/libmoefw.so.0" | grep -qE 'lib[alt]san'; then skip "a sanitizer needs settings of its own"; fi
    export walk="$BATS_FILE_TMPDIR/walk"
    local golden=$srcdir/tests/golden/pretrained
    mkdir -p "$walk/home" "$walk/given" "$walk/clone" "$walk/kinds" "$walk/pages"
    ln -s "$builddir" "$walk/clone/build"
    ln -s "$srcdir/share" "$walk/clone/share"
    cd "$walk/given" || return 1
    # What a user brings
    ln -s "$golden/mixtral/hf" OLMoE-1B-7B
    ln -s "$golden/peft/corrected" ADAPTER
    for name in TEXT FILE input.txt tinyshakespeare.txt; do
        yes 'ROMEO: the quick brown fox jumps over the lazy dog, and then sleeps.' | head -n 400 >"$name"
    done
    for name in TRAIN.tsv DEV.tsv; do
        for i in 1 2 3 4 5 6 7 8; do printf 'a fine film %s\tpos\na dull film %s\tneg\n' $i $i; done >"$name"
    done
    printf 'pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n' >SICK_train.txt
    for i in 1 2 3 4 5 6 7 8; do
        printf '%s\ta dog runs\ta dog runs\t5\tENTAILMENT\n%s\ta dog\tno dog runs\t3.5\tCONTRADICTION\n%s\ta dog\tmen sleep\t1\tNEUTRAL\n' $i $i $i
    done >>SICK_train.txt
    cp SICK_train.txt SICK_trial.txt
    # An own plugin, and a run that was trained with it
    clean "$builddir/moefw" plugin new router own "$walk/own" -q >/dev/null
    clean make -s -C "$walk/own"
    cp "$walk/own/own.so" own.so
    clean "$builddir/moefw" train default --plugin "$walk/given/own.so" --out "$walk/given/RUN" -q --steps 2 --set model.layers=1 \
        --set model.dim=16 --set model.heads=2 --set model.seq=16 --set expert.hidden=16 --set train.eval_context=0 >/dev/null
}

clean() {
    env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$walk/home" TERM=dumb "$@"
}

setup() {
    . "$srcdir/tests/walk/walk.sh"
}

commands() {
    awk -v form="$1" -f "$srcdir/tests/walk/commands.awk" "$2"
}

# follow NAME FOLDER: the commands that the walk NAME proposed, each once
follow() {
    awk '!seen[$0]++' "$walk/$1.next" >"$walk/$1.proposed"
    [ -s "$walk/$1.proposed" ]
    walk "$1-next" "$2" <"$walk/$1.proposed"
}

@test "README.md, from the clone" {
    path=/usr/local/bin:/usr/bin:/bin
    commands readme "$srcdir/README.md" | walk readme "$walk/clone"
    [ "$(grep -c '^+ moefw' "$walk/readme.said")" -ge 18 ]
    grep -qx '+ moefw compare default --routers linear,./mine.so .*' "$walk/readme.said"
    grep -q 'weights: of runs/olmoe, step 0' "$walk/readme.said"
}

@test "what README.md shows of the output is printed so" {
    commands shown "$srcdir/README.md" >"$walk/shown"
    [ "$(wc -l <"$walk/shown")" -ge 5 ]
    while read -r line; do
        line=${line#build/}
        [[ "$line" == "report"* ]] && line=report
        grep -qF -- "$line" "$walk/readme.said" || { echo "not printed: $line"; return 1; }
    done <"$walk/shown"
}

@test "a comparison with an own router, where nothing can be remembered of earlier commands" {
    path=$builddir:/usr/local/bin:/usr/bin:/bin
    commands readme "$srcdir/README.md" | grep 'moefw compare.*mine[.]so' >"$walk/lines"
    [ -s "$walk/lines" ]
    home=/dev/null walk forgetful "$walk/clone/mine" <"$walk/lines"
    grep -q '^ .*mine[.]so' "$walk/forgetful.said" # its row of the table
}

@test "what the commands of README.md propose next" {
    path=$builddir:/usr/local/bin:/usr/bin:/bin
    # Proposals name the runs of the folder in which they were printed: the plugin's for what comes before the last block.
    grep -E 'runs/default-|plugin new' "$walk/readme.next" >"$walk/mine.next"
    follow mine "$walk/clone/mine"
}

@test "a new plugin of each kind: what is proposed, its README and the targets of its Makefile" {
    path=$builddir:/usr/local/bin:/usr/bin:/bin
    for kind in router expert regularizer controller adapter op 'op --cuda'; do
        name=my_${kind%% *}${kind#"${kind%% *}"}
        name=${name// --/_}
        echo "moefw plugin new ${kind%% *} $name${kind#"${kind%% *}"}" | walk "$name" "$walk/kinds"
        follow "$name" "$walk/kinds"
        commands indented "$walk/kinds/$name/README" | walk "$name-readme" "$walk/kinds/$name"
        sed -nE 's/^\.PHONY: (.*)/\1/p' "$walk/kinds/$name/Makefile" | tr ' ' '\n' | sed 's/^/make /' | walk "$name-make" "$walk/kinds/$name"
        [ "$(wc -l <"$walk/$name-readme.said")" -gt 5 ]
    done
}

@test "the examples of the manual pages" {
    path=$builddir:/usr/local/bin:/usr/bin:/bin
    for page in "$srcdir"/man/moefw.1 "$srcdir"/man/moefw-*.[1-9]; do
        commands examples "$page" | grep . >"$walk/lines" || continue
        walk "${page##*/}" "$walk/pages" <"$walk/lines"
    done
    sed -i '/plugin new router mine/d' "$walk/moefw.1.next" # which the examples themselves have done
    follow moefw.1 "$walk/pages"
    # that of moefw.ini(5) is a configuration
    awk '/^\.Sh/ { on = $2 == "EXAMPLES" } on && /^\.Ed/ { exit } on && code { print } on && /^\.Bd/ { code = 1 }' \
        "$srcdir/man/moefw.ini.5" >"$walk/pages/example.ini"
    grep -q '^\[router\]' "$walk/pages/example.ini"
    echo 'moefw config check example.ini' | walk moefw.ini.5 "$walk/pages"
}

@test "the forms of the synopses" {
    path=$builddir:/usr/local/bin:/usr/bin:/bin
    for page in "$srcdir"/man/*.[1-9]; do
        commands synopsis "$page" | grep . >"$walk/lines" || continue
        walk "synopsis-${page##*/}" "$walk/pages" <"$walk/lines"
    done
    [ "$(grep -c '^+ ' "$walk/synopsis-moefw.1.said")" -ge 45 ]
}

@test "the program in README.md compiles and trains" {
    {
        echo '#include <moefw/run.h>'
        echo '#include <stdio.h>'
        echo 'int main(void) {'
        awk '/^## In your own program/ { on = 1 } on && /^```/ { if (code++) exit; next } on && code' "$srcdir/README.md" |
            sed 's/"default"/"small.ini"/'
        echo 'const char *wrong = moefw_run_message(run); int rc = wrong && *wrong; moefw_run_free(run); return rc; }'
    } >"$walk/program.c"
    cd "$walk" || return 1
    ${CC:-cc} -I"$srcdir/include" -I"$builddir/include" -o program program.c "$builddir/libmoefw.so.0" -Wl,-rpath,"$builddir"
    printf '[include]\npreset = default\n[train]\nsteps = 2\nbatch = 2\neval_context = 0\n[model]\nlayers = 1\ndim = 16\nheads = 2\n' >small.ini
    run clean ./program
    echo "$output"
    [ "$status" -eq 0 ]
    [ -d runs/first/ckpt ]
}

@test "each command of the table was met, and nothing in the home is anybody else's" {
    awk -F '\t' '$1 == "elsewhere" || $1 == "as" || $1 == "size" { print $1 "\t" $2 }' "$srcdir/tests/walk/table.tsv" | sort >"$walk/table"
    sort -u "$walk/used" | comm -23 "$walk/table" - >"$walk/unused"
    cat "$walk/unused"
    [ ! -s "$walk/unused" ]
    [ "$(stat -c %a "$walk/home/.local/state/moefw/trusted")" = 600 ]
}
