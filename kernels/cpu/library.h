/* library.h: plain f32 gemms by OpenBLAS, and the choice between it and our own kernels.
 *
 * A call runs only in the calling thread: kernels cut the work into tiles and distribute the
 * tiles over threads. So results depend only on shapes, and there is only one pool
 * of threads. */
#ifndef MF_CPU_LIBRARY_H
#define MF_CPU_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

/* c [m,n] = alpha op(a) op(b) + beta c; row-major, f32. m, n, k > 0; sizes and strides are
 * below 2^31. beta is 0 or 1. */
typedef struct mf_library_call {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t lda, ldb, ldc;
    float alpha, beta;
} mf_library_call;

/* ---- OpenBLAS (blas.c) ---- */

/* Call this before mf_blas_load. Returns the reason why there is too little memory for this
 * number of threads, or NULL. The text stays valid. */
const char *mf_blas_room(int threads);
/* Call this once, before the other functions, while there is one thread. Returns the reason why
 * the library cannot be used, or NULL. The text stays valid. */
const char *mf_blas_load(void);
/* Returns name, version and build of the loaded library. */
const char *mf_blas_about(void);
void mf_blas_gemm(const mf_library_call *g);

/* ---- the choice: by MOEFW_GEMM, or by instruction set (library.c) ---- */

/* Chooses by MOEFW_GEMM and opens OpenBLAS if it is chosen. fast_own: our own kernels have long
 * vectors. Returns false in three cases: the variable has an unknown name, OpenBLAS is named
 * and cannot be used, or OpenBLAS is the default and there is too little memory for it. */
bool mf_library_choose(bool fast_own);
/* Whether OpenBLAS computes plain gemms. False: our own kernels compute them, because they
 * were named, because no library was named and fast_own is true, or because OpenBLAS cannot
 * be used. */
bool mf_library_chosen(bool fast_own);

/* Calls OpenBLAS if it is chosen, or returns false and does nothing. */
bool mf_library_gemm(bool fast_own, const mf_library_call *g);

#endif
