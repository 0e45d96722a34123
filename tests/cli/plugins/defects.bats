# plugin check finds planted defects: tests/plugins/defects/list.tsv names each with the check that must
# find it and words of its message. The quick form takes every fifth; MOEFW_SLOW=1 takes all.

bats_require_minimum_version 1.5.0

setup_file() {
    export XDG_CONFIG_HOME="$BATS_FILE_TMPDIR/config" XDG_DATA_HOME="$BATS_FILE_TMPDIR/data"
}

setup() {
    ! grep -q __asan_init "$MOEFW" || skip "the sanitizer's own reports come instead"
}

build() { # DEFECT: the path of the plugin
    local source=router
    [ "$1" -lt 100 ] || source=other
    [ "$1" -lt 400 ] || source=drawn_router
    [ "$1" -lt 500 ] || source=drawn_other
    ${CC:-cc} -std=gnu11 -O1 -DDEFECT="$1" -I"$srcdir/include" -I"$builddir/include" -fPIC \
        -fvisibility=hidden -shared -o "$BATS_TEST_TMPDIR/defect-$1.so" \
        "$srcdir/tests/plugins/defects/$source.c" -lm -lpthread || return 1
    echo "$BATS_TEST_TMPDIR/defect-$1.so"
}

# The rows of the list as NUMBER|CHECK|WORDS, without comments.
rows() {
    awk -F '\t' '/^[0-9]/ { print $1 "|" $2 "|" $3 }' "$srcdir/tests/plugins/defects/list.tsv"
}

@test "without a defect every check passes" {
    local n file
    for n in 0 100 200 300 400 500 600 700 800; do
        file=$(build $n)
        run "$MOEFW" plugin check "$file"
        [ "$status" -eq 0 ] || { echo "$n: $output"; return 1; }
    done
}

@test "each defect is found by the check that the list names" {
    local row n check words file found=0 missed='' i=0
    while IFS='|' read -r n check words; do
        i=$((i + 1))
        [ "$check" != - ] || continue
        [ -n "${MOEFW_SLOW-}" ] || [ $((i % 5)) -eq 1 ] || continue
        file=$(build "$n")
        run "$MOEFW" plugin check "$file"
        [ "$status" -eq 4 ] || { echo "defect $n: status $status"; missed="$missed $n"; continue; }
        if grep -q "^FAIL  $check .*$words" <<<"$output"; then
            found=$((found + 1))
        else
            missed="$missed $n"
            echo "defect $n: expected check '$check' to say '$words', found: $(grep ^FAIL <<<"$output")"
        fi
    done < <(rows)
    echo "found: $found; missed:$missed"
    [ -z "$missed" ]
    [ "$found" -ge 20 ]
}

@test "unusual plugins that keep every rule are not refused" {
    local n file="$BATS_TEST_TMPDIR/fine.so"
    for n in $(seq 12); do
        ${CC:-cc} -std=gnu11 -O1 -DFINE="$n" -I"$srcdir/include" -I"$builddir/include" -fPIC \
            -fvisibility=hidden -shared -o "$file" "$srcdir/tests/plugins/defects/fine.c" -lm
        run "$MOEFW" plugin check "$file"
        [ "$status" -eq 0 ] || { echo "$n: $output"; return 1; }
        case $n in
        3) [[ "$output" == *"model.causal = no"* ]] || { echo "$output"; return 1; } ;;
        4 | 5 | 6) [[ "$output" == *"(straight-through)"* ]] || { echo "$n: $output"; return 1; } ;;
        8) grep -q '^-  *labels .*needs labels' <<<"$output" ;;
        esac
    done
}

@test "a mistake is told once: rows that follow from it name it and do not count" {
    local n file
    for n in 430 456 512; do
        file=$(build $n)
        run "$MOEFW" plugin check "$file"
        [ "$status" -eq 4 ]
        [ "$(grep -c '^FAIL' <<<"$output")" -le 2 ] || { echo "$n: $output"; return 1; }
        [ "$(grep -c "^-  .* after '.*' failed: " <<<"$output")" -ge 2 ] || { echo "$n: $output"; return 1; }
    done
}

@test "--seed draws other models, and the same ones again" {
    local file one two
    file=$(build 411)
    one=$("$MOEFW" plugin check "$file" --seed 7 2>&1 | grep '^FAIL') || true
    two=$("$MOEFW" plugin check "$file" --seed 7 2>&1 | grep '^FAIL') || true
    [ -n "$one" ]
    [ "$one" = "$two" ]
    [[ "$one" == *"of seed 7: batch "* ]] || { echo "$one"; false; }
    two=$("$MOEFW" plugin check "$file" --seed 8 2>&1 | grep '^FAIL') || true
    [ "$one" != "$two" ]
    [[ "$("$MOEFW" plugin check "$file" --seed 9 --json 2>/dev/null)" == *',"seed":9}' ]]
    run -2 "$MOEFW" plugin check "$file" --seed -1
    run -2 "$MOEFW" plugin check "$file" --set model.causal=perhaps
    [[ "$output" == *"expected model.causal=yes or no"* ]]
}

@test "the list names each defect of the sources once, and nothing else" {
    local listed planted
    listed=$(rows | cut -d '|' -f 1 | sort -n)
    planted=$(grep -oh 'IS([0-9]*)' "$srcdir"/tests/plugins/defects/*.c | grep -o '[0-9]*' | sort -nu)
    [ "$listed" = "$planted" ] || { diff <(echo "$listed") <(echo "$planted"); false; }
}
