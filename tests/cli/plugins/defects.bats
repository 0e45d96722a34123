# plugin check finds planted defects: tests/defects/list.tsv names each with the check that must
# find it and words of its message. The quick form takes every third; MOEFW_SLOW=1 takes all.

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
    ${CC:-cc} -std=gnu11 -O1 -DDEFECT="$1" -I"$srcdir/include" -I"$builddir/include" -fPIC \
        -fvisibility=hidden -shared -o "$BATS_TEST_TMPDIR/defect-$1.so" \
        "$srcdir/tests/defects/$source.c" -lm -lpthread || return 1
    echo "$BATS_TEST_TMPDIR/defect-$1.so"
}

# The rows of the list as NUMBER|CHECK|WORDS, without comments.
rows() {
    awk -F '\t' '/^[0-9]/ { print $1 "|" $2 "|" $3 }' "$srcdir/tests/defects/list.tsv"
}

@test "without a defect every check passes" {
    local n file
    for n in 0 100 200 300; do
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
        [ -n "${MOEFW_SLOW-}" ] || [ $((i % 3)) -eq 1 ] || continue
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

@test "the list names each defect of the sources once, and nothing else" {
    local listed planted
    listed=$(rows | cut -d '|' -f 1 | sort -n)
    planted=$(grep -oh 'IS([0-9]*)' "$srcdir"/tests/defects/*.c | grep -o '[0-9]*' | sort -nu)
    [ "$listed" = "$planted" ] || { diff <(echo "$listed") <(echo "$planted"); false; }
}
