/* simd.h: names of functions that are compiled once per instruction set.
 *
 * The build compiles each .c file of this folder with -DMF_ISA=generic, avx2 and avx512;
 * those that need more than AVX-512 (PAIRS and AMX of kernels/local.mk) only with avx512.
 * MF_SIMD(name) is the external name in that compilation; all other functions must be static.
 * kernels.def lists the kernels in this folder as SIMD. */
#ifndef MF_SIMD_H
#define MF_SIMD_H

#include "kernels/kernel.h"

#define MF_SIMD_JOIN2(name, isa) mf_simd_##name##_##isa
#define MF_SIMD_JOIN(name, isa)  MF_SIMD_JOIN2(name, isa)
#define MF_SIMD(name)            MF_SIMD_JOIN(name, MF_ISA)

#define MF_KERNEL(fn, ...) void MF_SIMD(fn)(const mf_kctx *x, const mf_##fn##_args *a);
#include "kernels/kernels.def"

void MF_SIMD(fill)(mf_kernels *table);
/* See mf_kernels_multiply. */
double MF_SIMD(multiply)(bool bf16, int64_t rounds);

/* c [m,n] = alpha op(a) op(b) + beta c in the calling thread; beta is 0 or 1. */
void MF_SIMD(gemm_serial)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                          float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                          float beta, float *c, int64_t ldc);

/* See mf_kernels.can_pack. */
bool MF_SIMD(can_pack)(int type, int64_t n, int64_t k);
/* See mf_kernels.sumsq_tiles. */
void MF_SIMD(sumsq_tiles)(const mf_kctx *x, int64_t total, int64_t first, int64_t count,
                          const float *a, int64_t *ret_tile, double *part);
/* Computes loss and gradient of logits [rows,n]: row_loss = ln sum e^logits - logits[target];
 * logits become (softmax - [j = target]) g[i]. Every target must be in 0 .. n - 1. */
void MF_SIMD(cross_entropy_over)(const mf_kctx *x, int64_t rows, int64_t n, float *logits,
                                 const int32_t *target, const float *g, float *row_loss);

#endif
