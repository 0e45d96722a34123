/* multiply_pairs.c: the rate of multiply-adds of pairs of bf16 on registers, for processors
 * that have this instruction. No bf16 gemm without matrix registers can be faster. */
#include <immintrin.h>
#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* as in multiply.c */
#define CHAINS 12

double MF_SIMD(multiply_pairs)(int64_t rounds)
{
    __m512 sum[CHAINS];
    __m512i one = _mm512_set1_epi32(0x3f803f80), small = _mm512_set1_epi32(0x3c003c00);
    for (int i = 0; i < CHAINS; i++)
        sum[i] = _mm512_set1_ps((float)i);
    for (int64_t r = 0; r < rounds; r++) {
        V_UNROLL
        for (int i = 0; i < CHAINS; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)one, (__m512bh)small);
    }
    __m512 all = _mm512_setzero_ps();
    for (int i = 0; i < CHAINS; i++)
        all = _mm512_add_ps(all, sum[i]);
    const double operations = 4.0 * CHAINS * VL * (double)rounds;
    /* The condition is always true. It reads the sums, so the compiler must compute them. */
    return _mm512_reduce_add_ps(all) >= 0 ? operations : 0;
}
