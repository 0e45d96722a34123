# moefw compare --scale: sizes, compute and differences are those of the comparisons; page, repetition, refusals.

bats_require_minimum_version 1.5.0

setup_file() { export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" OMP_WAIT_POLICY=passive; }
setup() { cd "$BATS_FILE_TMPDIR" || return 1; }

scale() {
    run --separate-stderr "$MOEFW" compare default -t 1 -o sizes --routers linear,hash --set data.path='builtin:topics?bytes=20000' \
        --set model.layers=1 --set model.heads=1 --set model.seq=16 --set moe.experts=2 --set moe.top_k=1 --set expert.hidden=4 \
        --set train.batch=2 --set train.eval_context=0 --set train.eval_every=0 "$@"
}

@test "three sizes: compute, differences and the page" {
    scale --scale 4,6,8 --scale-tokens .5 --seeds 3
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" == "3 sizes, 3 seeds, 0.5 tokens for each active parameter, train.lr "* ]]
    [[ "$output" == *"not identified: "* ]]
    for dim in 4 6 8; do
        # mean difference and compute from the runs of this size; a step has 32 tokens
        sed 's/"router":/\n&/g' sizes/dim-$dim/comparison.json | awk -v dim=$dim '
            /^"router":/ { r++; match($0, /"params_active":[0-9]*/); n[r] = substr($0, RSTART + 16, RLENGTH - 16)
                text = $0
                while (match(text, /"task_loss":[0-9.]*/)) { if (c[r] < 3) { s[r] += substr(text, RSTART + 12, RLENGTH - 12); c[r]++ }; text = substr(text, RSTART + RLENGTH) } }
            { if (match($0, /"steps":[0-9]*/) && !steps) steps = substr($0, RSTART + 8, RLENGTH - 8) }
            END { printf "%d %d %.6g %.9f\n", dim, steps, 6 * n[2] * steps * 32, (s[2] - s[1]) / 3 }'
    done >wanted
    sed 's/"router":"hash"/\n&/' sizes/scale.json | tail -n 1 | sed 's/{"dim"/\n&/g' | grep '^{"dim"' |
        sed 's/.*"dim":\([0-9]*\),"steps":\([0-9]*\),"compute":\([0-9.]*\),.*"difference":\[\([-+0-9.e]*\),.*/\1 \2 \3 \4/' |
        awk '{ printf "%d %d %.6g %.9f\n", $1, $2, $3, $4 }' >found
    [ "$(wc -l <found)" -eq 3 ]
    diff wanted found
    # each row of the text is on the page
    awk '{ printf "%+.4f [\n", $4 }' found | while read -r text; do grep -qF -- ">$text" sizes/scale.html; done
    grep -q 'No form is drawn' sizes/scale.html
    # what is finished is not repeated
    cp sizes/scale.json before.json
    ls -l --time-style=full-iso sizes/dim-8/*/seed-1/metrics.jsonl >before
    scale --scale 4,6,8 --scale-tokens .5 --seeds 3 --json
    [ "$output" = "$(cat before.json)" ]
    ls -l --time-style=full-iso sizes/dim-8/*/seed-1/metrics.jsonl | diff before -
}

@test "one size is missing, falls, or is no number; options that do not fit" {
    refused() {
        scale "${@:2}"
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"$1"* ]] || { echo "$stderr"; return 1; }
    }
    refused 'expected 3 sizes or more, found 2' --scale 4,6
    refused 'expected 3 to 8 rising values of model.dim' --scale 4,8,6
    refused 'expected 3 to 8 rising values of model.dim' --scale 4,6,x
    refused 'expected no --equal with it' --scale 4,6,8 --equal time
    refused 'expected no --grid with it' --scale 4,6,8 --grid train.lr=.1,.2
}
