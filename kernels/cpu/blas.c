/* blas.c: gemms by OpenBLAS; the only file that knows it. It runs in the calling thread alone,
 * so that results do not depend on how many threads there are.
 */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/library.h"

/* OpenBLAS is told to use one thread. Its OpenMP build forgets that: at every call it takes
 * omp_get_max_threads() anew, unless it finds itself inside a parallel region. But the call
 * that sets the number also sets the OpenMP default of the calling thread, and that stays. So
 * the call is made once in every thread that enters a kernel: tiles that then run in a parallel
 * region see the region, and tiles that run outside one see the default of 1. The program's own
 * regions name their number of threads and do not look at that default. */

/* What OpenBLAS runs when it is loaded and when it is unloaded; weak, because other builds of
 * it may not have them. */
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));

/* OpenBLAS takes a processor that is newer than itself for a Prescott and then runs five times
 * slower than it could. The processor's features say better what it can run, so OpenBLAS is
 * made to choose again. A choice by the user (OPENBLAS_CORETYPE) stays. */
static void choose_core(void)
{
#if defined(__x86_64__)
    const char *variable = "OPENBLAS_CORETYPE", *better = NULL;
    if (gotoblas_dynamic_init == NULL || gotoblas_dynamic_quit == NULL ||
        getenv(variable) != NULL || strcmp(openblas_get_corename(), "Prescott") != 0)
        return;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        better = "SkylakeX";
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        better = "Haswell";
    if (better == NULL || setenv(variable, better, 1) != 0) return;
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(variable);
#endif
}

static void one_thread(void)
{
    static _Thread_local bool told;
    if (told) return;
    openblas_set_num_threads(1);
    told = true;
}

static const char *load(void)
{
    choose_core();
    one_thread();
    return NULL;
}

static const char *about(void)
{
    return openblas_get_config();
}

static bool gemm(const mf_library_call *g)
{
    if (g->type != MF_CAST_F32 || g->type_c != MF_CAST_F32 || g->bias != NULL) return false;
    cblas_sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
                g->trans_b ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n,
                (blasint)g->k, g->alpha, g->a, (blasint)g->lda, g->b, (blasint)g->ldb, g->beta,
                g->c, (blasint)g->ldc);
    return true;
}

const mf_library mf_library_openblas = {"openblas", load, about, one_thread, gemm};
