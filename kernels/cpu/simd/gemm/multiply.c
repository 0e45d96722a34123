/* multiply.c: the rate of multiply-adds on registers, for benchmarks. No f32 gemm can be faster
 * on this processor. */
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/vec.h"

/* must be more than the latency in cycles times the number of units that multiply */
#define CHAINS 12

double MF_SIMD(multiply)(int64_t rounds)
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
