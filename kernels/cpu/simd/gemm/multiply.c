/* multiply.c: the rate of multiply-adds on registers, for benchmarks. No gemm of the type can
 * be faster on this processor. */
#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* must be more than the latency in cycles times the number of units that multiply */
#define CHAINS 12

static double multiply_f32(int64_t rounds)
{
    vf sum[CHAINS], factor = v_set(0.999f), term = v_set(0.001f);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = v_set((float)i);
    for (int64_t r = 0; r < rounds; r++) {
        V_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = v_fma(sum[i], factor, term);
    }
    vf all = {0};
    for (int i = 0; i < CHAINS; i++)
        all += sum[i];
    const double operations = 2.0 * CHAINS * VL * (double)rounds;
    /* The condition is always true. It reads the sums, so the compiler must compute them. */
    return v_sum(all) >= 0 ? operations : 0;
}

double MF_SIMD(multiply)(bool bf16, int64_t rounds)
{
#if defined(MF_HAVE_AMX)
    if (bf16 && MF_SIMD(gemm_amx) == MF_SIMD(gemm_tile_amx))
        return MF_SIMD(multiply_tiles)(rounds);
#endif
#if defined(MF_HAVE_AVX512BF16)
    if (bf16 && __builtin_cpu_supports("avx512bf16")) return MF_SIMD(multiply_pairs)(rounds);
#endif
    (void)bf16;
    return multiply_f32(rounds);
}
