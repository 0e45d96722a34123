# The published systems on real data: the slow group. MOEFW_DATA is a folder with
# tinyshakespeare.txt and wikitext-2/test.txt.

setup() {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 asks for it"
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# reaches PRESET FILE LEAST MOST: it trains in two minutes at most, to a validation loss between
reaches() {
    [ -n "$MOEFW_DATA" ] && [ -r "$MOEFW_DATA/$2" ] || skip "MOEFW_DATA has no $2"
    timeout 600 "$MOEFW" train "$1" -q --out run --data "$MOEFW_DATA/$2"
    loss=$(grep '"split":"val"' run/metrics.jsonl | tail -1 | sed -E 's/.*"task_loss":([0-9.]+).*/\1/')
    awk -v l="$loss" -v lo="$3" -v hi="$4" 'BEGIN { exit !(l > lo && l < hi) }' || { echo "loss $loss"; return 1; }
}

@test "switch-quick" {
    reaches switch-quick tinyshakespeare.txt 1.6 2.15
}

@test "switch-as-run-quick" {
    reaches switch-as-run-quick tinyshakespeare.txt 1.8 2.25
    grep '"split":"train"' run/metrics.jsonl | tail -20 | grep -q '"drop_rate":0\.'
}

@test "switch-plus-quick drops nothing" {
    reaches switch-plus-quick tinyshakespeare.txt 1.6 2.15
    [ "$(sed -E 's/.*"drop_rate":([^,}]*),"reassigned".*"moe".*/\1/' run/metrics.jsonl | sort -u)" = 0 ]
}

@test "switch-plus-as-run-quick drops nothing" {
    reaches switch-plus-as-run-quick tinyshakespeare.txt 1.8 2.25
    [ "$(sed -E 's/.*"drop_rate":([^,}]*),"reassigned".*"moe".*/\1/' run/metrics.jsonl | sort -u)" = 0 ]
}

@test "lamoe-quick" {
    reaches lamoe-quick wikitext-2/test.txt 1.5 3.2
}

@test "lamoe-as-run-quick" {
    reaches lamoe-as-run-quick wikitext-2/test.txt 1.5 3.2
}
