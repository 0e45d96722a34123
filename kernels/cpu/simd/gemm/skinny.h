/* skinny.h: gemms with a side no longer than SKINNY, in the calling thread. */
#ifndef MF_SIMD_SKINNY_H
#define MF_SIMD_SKINNY_H

#include "kernels/cpu/simd/simd.h"

#define SKINNY 16

/* Computes c = op(a) op(b) if the gemm has such a short side; otherwise returns false and does
 * nothing. The choice depends only on the transposes, k and rows x cols. rows x cols is the
 * shape of the whole gemm, of which these m x n elements are a part. */
bool MF_SIMD(skinny)(int64_t rows, int64_t cols, bool trans_a, bool trans_b, int64_t m,
                     int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float *c, int64_t ldc);

#endif
