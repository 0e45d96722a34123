/* blas.c: gemms by OpenBLAS; no other file calls it. OpenBLAS runs only in the calling thread,
 * so results do not depend on the number of threads.
 *
 * The library is opened when it is first needed: when it is loaded, it takes memory for each
 * thread, and without that memory it never returns. Our own kernels do without it. */
#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/library.h"

/* OpenBLAS must use one thread. Its OpenMP build does not remember this: each call outside a
 * parallel region reads omp_get_max_threads(), the OpenMP default of the calling thread.
 * openblas_set_num_threads() sets that default in some versions (0.3.21), but not in others
 * (0.3.29). So each thread that enters a kernel sets both once: tiles in a parallel region are
 * inside that region, and tiles outside one have a default of 1. The program's own regions name
 * their number of threads and ignore the default. */

static struct {
    void (*set_threads)(int n);
    void (*set_default)(int n); /* omp_set_num_threads of its OpenMP library, or NULL */
    char *(*config)(void);
    char *(*core)(void);
    __typeof__(&cblas_sgemm) sgemm;
    /* Functions that OpenBLAS runs when it is loaded and unloaded. NULL: some builds do not
     * have them. */
    void (*init)(void);
    void (*quit)(void);
    char refused[256]; /* why it cannot be used */
} lib;

/* OpenBLAS treats a processor that is newer than itself as a Prescott and then runs five times
 * slower than it could. The features of the processor tell better which kernels it can run, so
 * OpenBLAS is made to choose a second time, by these features. A choice of the user
 * (OPENBLAS_CORETYPE) stays. */
static void choose_core(void)
{
#if defined(__x86_64__)
    const char *variable = "OPENBLAS_CORETYPE", *better = NULL;
    if (lib.init == NULL || lib.quit == NULL || lib.core == NULL || getenv(variable) != NULL ||
        strcmp(lib.core(), "Prescott") != 0)
        return;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        better = "SkylakeX";
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        better = "Haswell";
    if (better == NULL || setenv(variable, better, 1) != 0) return;
    lib.quit();
    lib.init();
    unsetenv(variable);
#endif
}

static void one_thread(void)
{
    static _Thread_local bool told;
    if (told) return;
    lib.set_threads(1);
    if (lib.set_default) lib.set_default(1);
    told = true;
}

static void find(void *handle, const char *name, void *to)
{
    void *at = dlsym(handle, name);
    memcpy(to, &at, sizeof at);
}

/* Its threads and those of this program are of the same OpenMP library, if it is built
 * with OpenMP. */
static const char *load(void)
{
    void *handle = dlopen(MF_OPENBLAS_FILE, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(lib.refused, sizeof lib.refused,
                 "OpenBLAS cannot be opened (Debian, Ubuntu: libopenblas0-openmp): %s",
                 dlerror());
        return lib.refused;
    }
    find(handle, "openblas_set_num_threads", &lib.set_threads);
    /* dlsym also looks into the libraries that the handle needs. */
    find(handle, "omp_set_num_threads", &lib.set_default);
    find(handle, "openblas_get_config", &lib.config);
    find(handle, "openblas_get_corename", &lib.core);
    find(handle, "cblas_sgemm", &lib.sgemm);
    find(handle, "gotoblas_dynamic_init", &lib.init);
    find(handle, "gotoblas_dynamic_quit", &lib.quit);
    if (lib.set_threads == NULL || lib.config == NULL || lib.sgemm == NULL) {
        dlclose(handle);
        return MF_OPENBLAS_FILE ": expected OpenBLAS with the interface of C";
    }
    choose_core();
    one_thread();
    return NULL;
}

static const char *about(void)
{
    return lib.config();
}

static bool gemm(const mf_library_call *g)
{
    if (g->type != MF_CAST_F32 || g->type_c != MF_CAST_F32 || g->bias != NULL) return false;
    lib.sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
              g->trans_b ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n,
              (blasint)g->k, g->alpha, g->a, (blasint)g->lda, g->b, (blasint)g->ldb, g->beta,
              g->c, (blasint)g->ldc);
    return true;
}

const mf_library mf_library_openblas = {"openblas", load, about, one_thread, gemm};
