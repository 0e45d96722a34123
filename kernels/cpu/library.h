/* library.h: products that the fast kernels can take from a library, in C's conventions: one
 * small table for each library, and who of them was chosen.
 *
 * A call runs in the calling thread, whatever the library would do by itself: kernels cut the
 * work into tiles and spread those. So its bits depend on shapes only, and there is one pool of
 * threads.
 */
#ifndef MF_CPU_LIBRARY_H
#define MF_CPU_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel.h"

/* c [m,n] = alpha op(a) op(b) + bias + beta c, row-major, sums in f32; m, n, k > 0, sizes and
 * strides below 2^31. a and b are of one type. */
typedef struct mf_gemm {
    bool trans_a, trans_b;
    int64_t m, n, k;
    mf_cast_type type, type_c;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    float alpha, beta; /* beta is 0 or 1 */
    const float *bias; /* [n] or NULL */
} mf_gemm;

typedef struct mf_library {
    const char *name; /* as MOEFW_GEMM has it */
    /* Once, before anything else, with no other thread about. Why it cannot be used, or
     * NULL. */
    const char *(*load)(void);
    /* What is loaded: name, version, build. */
    const char *(*about)(void);
    /* In each thread that enters a kernel, before its tiles begin. Cheap after the first
     * time. */
    void (*one_thread)(void);
    /* false, and nothing is done, for what it does not do. */
    bool (*gemm)(const mf_gemm *g);
} mf_library;

extern const mf_library mf_library_openblas, mf_library_onednn;

/* ---- who was chosen: MOEFW_GEMM, or by instruction set ---- */

/* Judges the environment; false: it names nobody, or one that cannot be used. */
bool mf_library_choose(void);
/* The library that computes plain products; NULL: our own kernels. Where nobody was named,
 * these if fast_own. */
const mf_library *mf_library_chosen(bool fast_own);

/* By the library that was chosen; false, and nothing is done, where there is none or it does
 * not do this. The kernel that runs this in its tiles must have called
 * mf_library_one_thread. */
bool mf_library_gemm(bool fast_own, const mf_gemm *g);
void mf_library_one_thread(void);

#endif
