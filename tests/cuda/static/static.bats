# What nvcc makes of the kernels of CUDA, against the tables of rules (rules.tsv, rest.tsv). The rules
# themselves are tested with a few lines of what ptxas and nvdisasm print, so without a toolkit; each
# fault that they must find is planted there.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    tab=$(printf '\t')
    cat >log <<'END'
ptxas info    : Compiling entry function '_Z10mf_cu_gemmIftEvPK8mf_fault7mf_gemmb' for 'sm_90a'
ptxas info    : Function properties for _Z10mf_cu_gemmIftEvPK8mf_fault7mf_gemmb
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers, 2048 bytes smem
ptxas info    : Compiling entry function '_Z9mf_cu_setlfPf' for 'sm_90a'
ptxas info    : Function properties for _Z9mf_cu_setlfPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers
END
    cat >sass <<'END'
.text._Z10mf_cu_gemmIftEvPK8mf_fault7mf_gemmb:
        /*0000*/                   S2R R4, SR_TID.X ;
.L_x_1:
        /*0010*/                   LDG.E.128 R8, desc[UR4][R2.64] ;
.L_x_2:
        /*0020*/                   HMMA.16816.F32.BF16 R16, R4, R8, R16 ;
        /*0030*/              @!P1 HMMA.16816.F32.BF16 R20, R4, R8, R20 ;
        /*0040*/                   IADD3 R0, R0, 0x1, RZ ;
        /*0050*/               @P0 BRA `(.L_x_2) ;
        /*0060*/              @!P2 BRA `(.L_x_1) ;
        /*0070*/                   EXIT ;
.text._Z9mf_cu_setlfPf:
        /*0000*/                   STG.E desc[UR4][R2.64], R0 ;
        /*0010*/                   EXIT ;
END
    rule gemm 'mf_cu_gemm<f32,bf16>' all 256 4096 128 2 HMMA 50 why
    echo "mf_cu_set${tab}why" >rest.tsv
}

# rule FIELD...: the only rule
rule() {
    shift
    local IFS=$tab
    echo "$*" >rules.tsv
}

judge() {
    run awk -v arch="${1:-sm_90a}" -v show=1 -f "$srcdir/tests/cuda/static/static.awk" file=1 rules.tsv \
        file=2 rest.tsv file=3 log file=4 sass
}

# found TEXT: it is the one finding
found() {
    judge
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$1"* ]]
    [[ "$output" == *" 1 not met" ]]
}

@test "rules that are met; names, loops and blocks are read as they are" {
    judge
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"mf_cu_gemm<f32,bf16>: 128 registers, 2 blocks of 256 threads, HMMA 2 of 4 in the main loop"* ]]
    [[ "$output" == *"sm_90a: 2 kernels, 1 rules, 0 not met" ]]
    rule gemm mf_cu_gemm "sm_80 sm_90a" 256 4096 128 2 LDG.128 any why # the rule of all instances
    judge
    [ "$status" -eq 0 ]
}

@test "each fault is found: registers, blocks, share, other width" {
    rule gemm mf_cu_gemm all 256 4096 127 2 HMMA 50 why
    found "128 registers, at most 127"
    rule gemm mf_cu_gemm all 256 4096 128 3 HMMA 50 why
    found "2 blocks a multiprocessor, at least 3"
    rule gemm mf_cu_gemm all 256 120000 128 2 HMMA 50 why # as many bytes as leave room for one
    found "1 blocks a multiprocessor, at least 2"
    rule gemm mf_cu_gemm all 256 4096 128 2 HMMA 51 why
    found "HMMA 2 of 4 instructions of the main loop, at least 51 %"
    rule gemm mf_cu_gemm all 256 4096 128 2 LDG.64 any why
    found "no LDG.64"
    rule gemm mf_cu_gemm all 256 4096 128 2 HMMA 50 why
    sed -i 's/LDG.E.128/LDG.E/; s/HMMA.16816/FFMA/' sass
    found "HMMA 0 of 0 instructions"
}

@test "each fault is found: local memory, spills, matrix instructions in turn" {
    sed -i 's/IADD3 R0, R0, 0x1, RZ/STL.64 [R1+0x8], R2/' sass
    found "mf_cu_gemm<f32,bf16>: local memory (STL.64)"
    setup
    sed -i '3s/0 bytes spill loads/8 bytes spill loads/' log
    found "8 bytes spill loads"
    setup
    echo "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized" >>log
    found "C7510"
}

@test "each fault is found: tables that name no kernel, kernels that no table names" {
    echo "mf_cu_gone${tab}why" >>rest.tsv
    found "rest.tsv:2: no kernel mf_cu_gone"
    echo "mf_cu_other${tab}why" >rest.tsv
    judge
    [[ "$output" == *"mf_cu_set: neither a rule in rules.tsv nor a reason in rest.tsv"* ]]
    setup
    rule gemm 'mf_cu_gemm<bf16,bf16>' all 256 4096 128 2 HMMA 50 why
    judge
    [[ "$output" == *"rules.tsv:1: no kernel mf_cu_gemm<bf16,bf16>"*"2 not met"* ]]
    setup
    echo "mf_cu_gemm${tab}all" >>rules.tsv
    found "rules.tsv:2: 2 columns, expected 9"
    setup
    echo "mf_cu_set" >rest.tsv
    judge
    [[ "$output" == *"rest.tsv:1: expected a kernel and a reason"* ]]
    setup
    sed -i '/^.text._Z9/,$d' sass
    found "mf_cu_set: not in the SASS"
    setup
    judge sm_70
    [ "$status" -eq 2 ]
    [[ "$output" == *"sm_70, expected sm_80"* ]]
}

# toolkit: skips without nvcc, or without the header of occupancy
toolkit() {
    nvcc=$(command -v "${NVCC:-nvcc}") || skip "no nvcc"
    include=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
}

@test "blocks of a multiprocessor are those of CUDA's own header" {
    toolkit
    [ -e "$include/cuda_occupancy.h" ] || skip "no cuda_occupancy.h in $include"
    command -v "${CXX:-g++}" >/dev/null || skip "no C++ compiler"
    "${CXX:-g++}" -std=c++20 -I"$include" "$srcdir/tests/cuda/static/occupancy.cc" -o occupancy
    ./occupancy >blocks
    run -0 awk -v occupancies=1 -f "$srcdir/tests/cuda/static/static.awk" blocks
    [[ "$output" == *"0 differ" ]]
    [ "$(wc -l <blocks)" -gt 40000 ]
    sed -i '1000s/[0-9]*$/99/' blocks
    run -1 awk -v occupancies=1 -f "$srcdir/tests/cuda/static/static.awk" blocks
    [[ "$output" == *"1 differ" ]]
}

# compiled ARCH...: no rule is missed
compiled() {
    toolkit
    run sh "$srcdir/tests/cuda/static/ptxas.sh" "$srcdir" "$@"
    [ "$status" -ne 77 ] || skip "$output"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c ': [0-9]* kernels, [0-9]* rules, 0 not met$' <<<"$output")" -eq $# ]
}

@test "kernels as nvcc compiles them meet the rules: sm_80, sm_90a, sm_100, sm_120" {
    [ -n "$MOEFW_SLOW" ] || skip "slow: set MOEFW_SLOW=1"
    compiled sm_80 sm_90a sm_100 sm_120
}
