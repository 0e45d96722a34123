# Traffic of memory: what a warp asks for in a training step on the emulator, by kernel, against the
# least that the same bytes need; and whether rules.tsv has the threads and the shared memory of what is
# launched. traffic.tsv has the bounds of kernels that need their own.

bats_require_minimum_version 1.5.0
. "$srcdir/tests/lib/emulator.bash"

setup_file() {
    make_emulator
}

setup() {
    [ -z "$LACKING" ] || skip "$LACKING"
    cd "$BATS_TEST_TMPDIR" || exit 1
    export XDG_CONFIG_HOME="$BATS_TEST_TMPDIR" OMP_WAIT_POLICY=passive
}

# profiled FILE ARCHITECTURE DTYPE WORDS...: a step of training, with gradients
profiled() {
    local file=$1 arch=$2 dtype=$3
    shift 3
    MOEFW_EMU_ARCH=$arch MOEFW_EMU_PROFILE=$PWD/$file MOEFW_PLUGIN_PATH=${MOEFW_EMU:-$builddir/tests/cuda/judged} \
        "$MOEFW" train default --steps 1 -q --out "run-$file" --set train.device=emu --set train.dtype="$dtype" \
        --set model.dim=128 --set model.layers=1 --set model.heads=2 --set model.seq=64 --set train.batch=2 \
        --set moe.experts=4 --set expert.hidden=256 --set data.path='builtin:topics?bytes=20000' \
        --set data.tokenizer=byte --set train.recompute=none --set train.eval_context=0 \
        --set train.eval_every=0 --set train.eval_batches=1 --set train.final_batches=1 \
        --set train.log_every=100 --set report.enabled=no "$@"
}

# judged FILE: no kernel has more traffic than its bound; prints all figures
judged() {
    awk -F '\t' '
        /^#/ { next }
        NF == 4 { sectors[$1] = $2; passes[$1] = $3; next }
        {
            s = $7 > 0 ? $6 / $7 : 1
            p = $8 > 0 ? $9 / $8 : 1
            bad = s > (($1 in sectors) ? sectors[$1] : 1.35) || p > (($1 in passes) ? passes[$1] : 1.1)
            printf "%s%s: sectors %.2f, passes %.2f of the least\n", bad ? "TOO MUCH: " : "", $1, s, p
            all += bad
        }
        END { exit all > 0 || NR == 0 }' "$srcdir/tests/cuda/traffic.tsv" "$1"
}

# launched FILE ARCH: kernels with a rule have its threads and shared memory
launched() {
    awk -F '\t' -v arch="$2" '
        /^#/ { next }
        table {
            if ($2 != "all" && index(" " $2 " ", " " arch " ") == 0) next
            name = $1
            sub(/<.*/, "", name)
            hot[name] = 1
            rule[name, $3, $4] = 1
            next
        }
        ($1 in hot) && !(($1, $3, $4) in rule) { print $1 ": launched with " $3 " threads, " $4 " bytes"; bad = 1 }
        ($1 in hot) { n++ }
        END { print n + 0 " kernels with a rule"; exit bad || n < 25 }' table=1 "$srcdir/tests/cuda/static/rules.tsv" table=0 "$1"
}

@test "training in f32" {
    profiled f32.tsv 80 f32 --set train.batch=1
    judged f32.tsv
    launched f32.tsv sm_80
}

@test "training in bf16, by mma.sync and by wgmma" {
    for arch in 80 90; do
        profiled bf16-$arch.tsv $arch bf16
        judged bf16-$arch.tsv
        launched bf16-$arch.tsv sm_$([ $arch = 90 ] && echo 90a || echo 80)
        # The general kernel, much slower, has no gemm of the step: those of the head neither.
        grep -q ^mf_cu_gemm_ bf16-$arch.tsv
        run -1 grep "^mf_cu_gemm$(printf '\t')" bf16-$arch.tsv
    done
}

@test "what a kernel asks for in vain is found" {
    profiled bf16.tsv 90 bf16
    awk -F '\t' -v OFS='\t' '$1 == "mf_cu_adamw_ranges" { $6 *= 2 } 1' bf16.tsv >twice.tsv
    run -1 judged twice.tsv
    [[ "$output" == *"TOO MUCH: mf_cu_adamw_ranges: sectors 2.00"* ]]
    awk -F '\t' -v OFS='\t' '$1 == "mf_cu_adamw_ranges" { $3 = 128 } 1' bf16.tsv >other.tsv
    run -1 launched other.tsv sm_90a
    [[ "$output" == *"mf_cu_adamw_ranges: launched with 128 threads"* ]]
}
