# Folders that came from somebody else: a link in the place of a file, files that exist, and
# names that mean another folder. Nothing outside of what was named is changed.

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_NUM_THREADS=1
    head -c 3000 "$srcdir/README.md" >text.txt
    printf '%s\n' '[model]' dim=16 layers=1 heads=2 seq=16 '[moe]' experts=2 '[data]' path=text.txt \
        '[train]' batch=2 steps=4 eval_context=8 eval_every=2 eval_batches=2 save_every=2 keep=2 \
        keep_best=yes '[log]' tensorboard=yes '[trace]' every=2 >tiny.ini
}

sums() {
    find "$1" -type f -exec md5sum {} + | sort
}

@test "each file and folder of a run that is a link: resuming refuses it, and nothing outside changes" {
    "$MOEFW" train tiny.ini -q --out run
    cp -r run outside
    sums outside >before
    tried=0
    for file in $(cd run && find . -mindepth 1 -not -name '*.tfevents.*' | sed 's,^\./,,' | sort); do
        rm -rf received
        cp -r run received
        rm -rf "received/$file"
        ln -s "$PWD/outside/$file" "received/$file"
        run "$MOEFW" train --resume received -q --steps 6
        [ "$status" -eq 3 ] || { echo "$file: $status $output"; false; }
        [[ "$output" == *"received/$file: a symbolic link"* ]] || { echo "$file: $output"; false; }
        # verbs that only add a page or a trace, and those that remove
        "$MOEFW" report received >/dev/null 2>&1 || true
        "$MOEFW" trace record received --batches 1 -q --force >/dev/null 2>&1 || true
        "$MOEFW" runs received --remove --yes -q >/dev/null 2>&1 || true
        sums outside | diff - before || { echo "changed by $file"; false; }
        tried=$((tried + 1))
    done
    [ "$tried" -ge 20 ]
    # a link that is not of the run disturbs nobody
    rm -rf received && cp -r run received && ln -s "$PWD/outside" received/notes
    "$MOEFW" train --resume received -q --steps 6
    sums outside | diff - before
}

@test "a file that exists is refused by every verb that writes one; --force replaces it" {
    "$MOEFW" train tiny.ini -q --out run
    "$MOEFW" trace record run --batches 1 -q -o trace.st
    printf '{"input_ids"' >tokens.bad
    echo precious >kept
    refused() {
        echo precious >out
        run "$@"
        [ "$status" -eq 2 ] || { echo "$* -> $status $output"; false; }
        [[ "$output" == *"out: exists already; expected a new file, or --force to replace it"* ]] ||
            { echo "$* -> $output"; false; }
        cmp out kept
        run "$@" --force
        [ "$status" -eq 0 ] || { echo "$* --force -> $status $output"; false; }
        ! cmp -s out kept || { echo "$* --force left it"; false; }
    }
    refused "$MOEFW" report run -o out
    refused "$MOEFW" trace record run --batches 1 -q -o out
    refused "$MOEFW" trace replay trace.st run -q -o out
    refused "$MOEFW" bench routers --routers linear --dim 8 --experts 2 --batch 1 --seq 8 --seeds 1 --no-layer --report out
    refused "$MOEFW" tokenize train bpe text.txt -o out --vocab-size 300
    refused "$MOEFW" tokenize encode run/tokenizer.json text.txt --bin out
    refused "$MOEFW" data synth --bytes 1000 --out out --labels labels.u8
    refused "$MOEFW" export csv run -o out
    printf 'ab cd\n' >lines.txt
    refused "$MOEFW" eval run --lines lines.txt --save out
    refused "$MOEFW" generate run -n 4 --begin 65,66 --ids out
    rm -rf swapped
    echo precious >out
    run "$MOEFW" swap run --router mlp --batches 1 -o swapped --report out
    [ "$status" -eq 2 ]
    cmp out kept
    [ ! -e swapped ]
    # a page of moefw is replaced by a newer one
    "$MOEFW" report run -o page.html
    "$MOEFW" report run -o page.html
    # and a folder is no file
    mkdir folder
    run "$MOEFW" report run -o folder --force
    [ "$status" -eq 2 ]
    [[ "$output" == *"folder: is a folder; expected a new file"* ]]
}

@test "runs --remove judges all runs before the first is gone, and keeps what it did not write" {
    for name in a b c; do "$MOEFW" train tiny.ini -q --out $name; done
    sums . >before
    (cd a && run "$MOEFW" runs . --remove --yes && [ "$status" -eq 2 ])
    (cd a/ckpt && run "$MOEFW" runs ../../b ../../a --remove --yes && [ "$status" -eq 2 ] &&
        [[ "$output" == *"the current folder is in this run"* ]])
    ln -s a link
    for path in b/ckpt/.. b/. link; do
        run "$MOEFW" runs c "$path" --remove --yes
        [ "$status" -eq 2 ] || { echo "$path: $status $output"; false; }
    done
    rm link
    sums . | grep -v ' ./\(before\)$' | diff - <(grep -v ' ./before$' before)
    echo mine >b/notes.txt
    echo mine >b/ckpt/step-4/plan.txt
    run "$MOEFW" runs b --remove --yes
    [ "$status" -eq 0 ]
    [[ "$output" == *"b: removed but for what moefw did not write, as b/ckpt/step-4/plan.txt"* ]]
    [ "$(cd b && find . -type f | sort | tr '\n' ' ')" = "./ckpt/step-4/plan.txt ./notes.txt " ]
    "$MOEFW" runs a c --remove --yes -q
    [ ! -e a ]
    [ ! -e c ]
}

@test "runs --remove and train --resume take a path that leads through the run itself" {
    "$MOEFW" train tiny.ini -q --out kept
    sums kept >before
    for path in run/ckpt/../../run run/samples/../../run run/../run ./run/ckpt/step-4/../../../run/; do
        cp -r kept run
        mkdir -p run/samples
        run "$MOEFW" runs "$path" --remove --yes
        [ "$status" -eq 0 ] || { echo "$path: $status $output"; false; }
        [ ! -e run ] || { echo "$path: $(find run)"; false; }
    done
    # a run that is named twice is refused before anything is gone
    cp -r kept run
    run "$MOEFW" runs run ckpt/../run run/../run --remove --yes
    [ "$status" -ne 0 ]
    run "$MOEFW" runs run run/ckpt/../../run --remove --yes
    [ "$status" -eq 2 ]
    [[ "$output" == *"the same run as run: expected each run once"* ]]
    sed 's,kept/,run/,' before | diff - <(sums run)
    # files that a resumed run removes are found by such a path, too
    rm -rf run/ckpt run/metrics.jsonl
    run "$MOEFW" train --resume run/samples/../../run -q
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [ -e run/ckpt/latest ]
}

@test "a run copied by hard links is resumed without a change of the original" {
    "$MOEFW" train tiny.ini -q --out run
    sums run >before
    cp -al run copy
    run "$MOEFW" train --resume copy --steps 8
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    sums run | diff - before
    [ "$(grep -c 'the file has other names (hard links)' <<<"$output")" -eq 1 ]
    # each file by itself
    cp -r run outside
    sums outside >before
    for file in $(cd run && find . -type f | sed 's,^\./,,' | sort); do
        rm -rf received
        cp -r run received
        ln -f "outside/$file" "received/$file"
        "$MOEFW" train --resume received -q --steps 6 || true
        "$MOEFW" report received >/dev/null 2>&1 || true
        "$MOEFW" trace record received --batches 1 -q --force >/dev/null 2>&1 || true
        "$MOEFW" runs received --remove --yes -q >/dev/null 2>&1 || true
        sums outside | diff - before || { echo "changed by $file"; false; }
    done
}

@test "a comparison copied by hard links is continued without a change of the original" {
    "$MOEFW" compare tiny.ini --routers linear --seeds 2 --steps 2 -q --out c >/dev/null
    sums c >before
    cp -al c d
    "$MOEFW" compare tiny.ini --routers linear --seeds 3 --steps 4 -q --out d >/dev/null || true
    "$MOEFW" compare tiny.ini --routers linear --seeds 3 --steps 2 -q --out d >/dev/null
    sums c | diff - before
}

@test "results on a closed standard output are an error; a run's name is none" {
    run bash -c '"$MOEFW" config show tiny.ini >&-'
    [ "$status" -eq 1 ]
    [[ "$output" == *"cannot write the results to standard output: it is closed"* ]]
    run bash -c '"$MOEFW" train tiny.ini -q --out run >&-'
    [ "$status" -eq 0 ]
    [ -e run/ckpt/latest ]
    run env OMP_NUM_THREADS=100000 "$MOEFW" train tiny.ini -q --out other
    [ "$status" -eq 2 ]
    [[ "$output" == *"OMP_NUM_THREADS=100000: expected at most 4096 threads"* ]]
    [ ! -e other ]
}

@test "a comparison with a link in the place of a run or of a file of one is refused" {
    words=(compare tiny.ini --routers linear --seeds 2 --steps 2 -q --out c)
    "$MOEFW" "${words[@]}" >/dev/null
    echo precious >outside
    run=$(find c -name config.ini -path '*/*/*' | head -n 1)
    for file in "$(dirname "$run")/metrics.jsonl" "$(find c -name '*.log' | head -n 1)"; do
        rm -rf d && cp -r c d
        rm -f "d/${file#c/}" && ln -s "$PWD/outside" "d/${file#c/}"
        run "$MOEFW" compare tiny.ini --routers linear --seeds 3 --steps 2 -q --out d
        [ "$status" -eq 3 ] || { echo "$file: $status $output"; false; }
        [[ "$output" == *"d/${file#c/}: a symbolic link"* ]]
        [ "$(cat outside)" = precious ]
    done
}
