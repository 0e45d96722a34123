/* library.h: gemms that the fast kernels can take from a library: one small table for each
 * library, and which one was chosen.
 *
 * A call runs in the calling thread, whatever the library would do by itself: kernels cut the
 * work into tiles and spread those over threads. So bits depend on shapes only, and there is
 * one pool of threads.
 */
#ifndef MF_CPU_LIBRARY_H
#define MF_CPU_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel.h"

/* c [m,n] = alpha op(a) op(b) + bias + beta c, row-major, sums in f32; m, n, k > 0, sizes and
 * strides below 2^31. a and b are of one type. */
typedef struct mf_library_call {
    bool trans_a, trans_b;
    int64_t m, n, k;
    mf_cast_type type, type_c;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    float alpha, beta; /* beta is 0 or 1 */
    const float *bias; /* [n] or NULL */
} mf_library_call;

typedef struct mf_library {
    const char *name; /* in MOEFW_GEMM */
    /* Called once, before anything else, while there is one thread. Returns why the library
     * cannot be used, or NULL. */
    const char *(*load)(void);
    /* What is loaded: name, version, build. */
    const char *(*about)(void);
    /* Called in each thread that enters a kernel, before its tiles begin. Cheap after the
     * first time. */
    void (*one_thread)(void);
    /* Returns false and does nothing for what the library does not support. */
    bool (*gemm)(const mf_library_call *g);
} mf_library;

extern const mf_library mf_library_openblas, mf_library_onednn;

/* ---- the choice: by MOEFW_GEMM, or by instruction set ---- */

/* Reads MOEFW_GEMM; false: it names no library, or one that cannot be used. */
bool mf_library_choose(void);
/* The library that computes plain gemms; NULL: our own kernels, which are also taken if none
 * was named and fast_own is true. */
const mf_library *mf_library_chosen(bool fast_own);

/* Calls the chosen library. Returns false and does nothing if there is none or it does not
 * support this. The kernel that runs this in its tiles must have called
 * mf_library_one_thread. */
bool mf_library_gemm(bool fast_own, const mf_library_call *g);
void mf_library_one_thread(void);

#endif
