/* skinny.h: gemms one side of which is no longer than SKINNY, in the calling thread. */
#ifndef MF_SIMD_SKINNY_H
#define MF_SIMD_SKINNY_H

#include "kernels/cpu/simd/simd.h"

#define SKINNY 16

/* c = op(a) op(b) if the gemm is of that kind; else false, and nothing is done. The choice
 * is by shape alone; these m x n are a part of rows x cols. */
bool MF_SIMD(skinny)(int64_t rows, int64_t cols, bool trans_a, bool trans_b, int64_t m,
                     int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float *c, int64_t ldc);

#endif
