/* blas.h: the one product that the fast kernels take from a library, in C's conventions.
 *
 * A call runs in the calling thread, whatever that library would do by itself: kernels cut the
 * work into tiles and spread those. So its bits depend on shapes only.
 */
#ifndef MF_CPU_BLAS_H
#define MF_CPU_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* c [m,n] = alpha op(a) op(b) + beta c, row-major; sizes and strides below 2^31. */
void mf_blas_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc);

/* Once, before anything else here, with no other thread about. */
void mf_blas_init(void);
/* "OpenBLAS 0.3.21 ... SkylakeX ...": version, build and the kernels it chose. */
const char *mf_blas_name(void);

/* Who computes plain products in f32: MOEFW_GEMM, own or openblas, as mf_kernels_gemm judged it; where
 * that says nothing, the library unless fast_own. */
bool mf_gemm_by_library(bool fast_own);

/* To be called by each kernel that uses mf_blas_gemm, in the thread that entered the kernel,
 * before its tiles begin. Cheap after the first time. */
void mf_blas_one_thread(void);

#endif
