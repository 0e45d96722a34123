/* blas.c: gemms by OpenBLAS; no other file calls it. OpenBLAS runs only in the calling thread,
 * so results do not depend on the number of threads. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/library.h"

/* OpenBLAS must use one thread. Its OpenMP build does not remember this: each call outside a
 * parallel region reads omp_get_max_threads(). But setting the number of threads also sets the
 * OpenMP default of the calling thread, which remains. So each thread that enters a kernel sets
 * the number once: tiles in a parallel region are inside that region, and tiles outside one
 * have a default of 1. The program's own regions name their number of threads and ignore
 * the default. */

/* Functions that OpenBLAS runs when it is loaded and unloaded. They are weak, because some
 * builds do not have them. */
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));

/* OpenBLAS treats a processor that is newer than itself as a Prescott and then runs five times
 * slower than it could. The features of the processor tell better which kernels it can run, so
 * OpenBLAS is made to choose a second time, by these features. A choice of the user
 * (OPENBLAS_CORETYPE) stays. */
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
