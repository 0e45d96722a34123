/* library.h: the interface to libraries that compute gemms: one small table per library, and
 * the choice among them.
 *
 * A call runs only in the calling thread: kernels cut the work into tiles and distribute the
 * tiles over threads. So results depend only on shapes, and there is only one pool
 * of threads. */
#ifndef MF_CPU_LIBRARY_H
#define MF_CPU_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel.h"

/* c [m,n] = alpha op(a) op(b) + bias + beta c; row-major, sums in f32. m, n, k > 0; sizes and
 * strides are below 2^31. a and b have the same type. */
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
    const char *name; /* name in MOEFW_GEMM */
    /* Called before `load`: returns why memory is too little for so many threads, or NULL. The
     * text stays valid. NULL: `load` says so itself. */
    const char *(*room)(int threads);
    /* Called once, before the other functions, while there is one thread. Returns why the
     * library cannot be used, or NULL. The text stays valid. */
    const char *(*load)(void);
    /* Name, version and build of the loaded library, or why it could not be loaded. */
    const char *(*about)(void);
    /* Called in each thread that enters a kernel, before its tiles. Takes little time after the
     * first call. */
    void (*one_thread)(void);
    /* Returns false and does nothing if the library does not support the call. */
    bool (*gemm)(const mf_library_call *g);
} mf_library;

extern const mf_library mf_library_openblas, mf_library_onednn;

/* ---- the choice: by MOEFW_GEMM, or by instruction set ---- */

/* Chooses by MOEFW_GEMM and opens the library that is chosen. fast_own: our own kernels have
 * long vectors. Returns false if the variable has an unknown name, or names a library that
 * cannot be used, or if memory is too little for OpenBLAS where it is the default. */
bool mf_library_choose(bool fast_own);
/* The library that computes plain gemms. NULL: our own kernels do, because they were named, or
 * because nothing was named and fast_own is true, or OpenBLAS cannot be used. */
const mf_library *mf_library_chosen(bool fast_own);

/* Calls the chosen library. Returns false and does nothing if there is none or it does not
 * support the call. Before its tiles call this, a kernel must have called mf_library_one_thread
 * in its own thread. */
bool mf_library_gemm(bool fast_own, const mf_library_call *g);
void mf_library_one_thread(bool fast_own);

#endif
