# The program computes the recorded bits: tests/bits/check.sh compares runs with the records there.
# Another compiler may round differently; then only the losses must be close.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    # The records were made with AVX2, which all recent x86-64 processors have.
    grep -qw avx2 /proc/cpuinfo 2>/dev/null || skip "the records need a processor with AVX2"
    "$MOEFW" doctor | grep -q '^built for .*avx2' || skip "this program was built without AVX2 kernels"
}

# check WORDS...: these runs and groups equal their records
check() {
    run sh "$srcdir/tests/bits/check.sh" "$@"
    echo "$output"
    [ "$status" -eq 0 ]
}

@test "the default model, in f32 and bf16" {
    check "$MOEFW" default bf16
}

@test "capacity, published routers, classes, masked tokens, heads that are pruned, regularizers" {
    check "$MOEFW" capacity reassign switch lamoe attention vanilla masked heads plugins
}

@test "windows, sinks, norms of queries and keys, scaled rope; latent keys and values" {
    check "$MOEFW" windows latent
    check -t 1 "$MOEFW" windows latent
}

@test "every router of the program" {
    check "$MOEFW" routers
}

@test "the same bits on one thread" {
    check -t 1 "$MOEFW" reassign masked heads
}

@test "the check detects another seed, and shows which lines differ" {
    # only records of the same compiler are compared digit by digit
    sh "$srcdir/tests/bits/record.sh" -o own "$MOEFW" masked
    RECORDS=own run sh "$srcdir/tests/bits/check.sh" -s 2 "$MOEFW" masked
    [ "$status" -eq 1 ]
    [[ "$output" == "differs masked"*"< step 1 train 5."*"> step 1 train 5."* ]]
    # so does the comparison with a tolerance, which applies to another compiler
    mkdir records
    sed 's/^compiler .*/compiler other 1.0/' own/masked.txt >records/masked.txt
    RECORDS=records run sh "$srcdir/tests/bits/check.sh" -s 2 "$MOEFW" masked
    [ "$status" -eq 1 ]
    [[ "$output" == "differs masked"*"1 train 5."*" instead of 5."* ]]
    RECORDS=records run sh "$srcdir/tests/bits/check.sh" "$MOEFW" masked
    [ "$status" -eq 0 ]
    [ "$output" = "ok masked" ]
    # That comparison accepts another last digit of one loss; the compiler of the record must not.
    for folder in records own; do
        sed -E '/^step 6 train/{s/[0-8]$/9/;t;s/.$/0/}' $folder/masked.txt >near
        ! cmp -s near $folder/masked.txt || false
        mv near $folder/masked.txt
    done
    RECORDS=records run sh "$srcdir/tests/bits/check.sh" "$MOEFW" masked
    [ "$status" -eq 0 ]
    RECORDS=own run sh "$srcdir/tests/bits/check.sh" "$MOEFW" masked
    [ "$status" -eq 1 ]
}

@test "models of full width, some minutes" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 asks for it"
    check "$MOEFW" slow
}

@test "published systems on real data" {
    [ -n "$MOEFW_SLOW" ] || skip "MOEFW_SLOW=1 asks for it"
    for file in tinyshakespeare.txt wikitext-2/test.txt sst2/train.tsv sick/SICK_train.txt bert/vocab.txt; do
        [ -n "$MOEFW_DATA" ] && [ -r "$MOEFW_DATA/$file" ] || skip "MOEFW_DATA has no $file"
    done
    check -d "$MOEFW_DATA" "$MOEFW" data
}
