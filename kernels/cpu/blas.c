/* blas.c: gemms by OpenBLAS; no other file calls it. OpenBLAS runs only in the calling thread,
 * so results do not depend on the number of threads.
 *
 * OpenBLAS is opened when it is first needed. While it is being loaded it takes memory for each
 * thread, and if that memory is missing, the load never returns. Our own kernels do not
 * need it. */
#include <cblas.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cpu/library.h"

/* OpenBLAS must use one thread. Its OpenMP build does not store this setting: each call reads
 * omp_get_max_threads(), the OpenMP default of the calling thread. openblas_set_num_threads()
 * sets that default in some versions (0.3.21), but not in others (0.3.29). So each thread that
 * calls OpenBLAS sets both once. */

static struct {
    void (*set_threads)(int n);
    void (*set_default)(int n); /* omp_set_num_threads of the OpenMP library of OpenBLAS,
                                 * or NULL */
    char *(*config)(void);
    char *(*core)(void);
    __typeof__(&cblas_sgemm) sgemm;
    /* Functions that OpenBLAS runs when it is loaded and unloaded. NULL: some builds do not
     * have these functions. */
    void (*init)(void);
    void (*quit)(void);
    void *(*take)(int unused); /* takes one of the buffers; NULL: this build does not export
                                * the function */
    void (*give)(void *buffer);
    int callers;       /* number of threads that call OpenBLAS at the same time */
    char refused[256]; /* reason why OpenBLAS cannot be used */
} lib;

/* Makes OpenBLAS choose its kernels again. It treats a processor that is newer than itself as a
 * Prescott, and then runs five times slower than possible. The features of the processor show
 * more exactly which kernels it can run, so the new choice uses these features. A choice of the
 * user (OPENBLAS_CORETYPE) is kept. */
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

/* Sizes of the address space that OpenBLAS takes. It has a buffer for each thread that calls
 * it, or for each processor if there are more processors, and one more buffer for itself. A
 * buffer has this size on most processors, and a quarter of it on others. LIBRARIES is for
 * OpenBLAS and the libraries that it needs (39 MiB) and for the minimum that a
 * computation needs. */
#define BUFFER    ((size_t)128 << 20)
#define LIBRARIES ((size_t)64 << 20)

/* Checks whether there is enough memory. If OpenBLAS gets no buffer, it retries without end. So
 * this function maps the same amount of memory as OpenBLAS, in pieces of the same size, and
 * releases all of it. The system refuses memory by its limits on addresses and on data. */
const char *mf_blas_room(int threads)
{
    typedef struct piece {
        struct piece *next;
    } piece;
    piece *first = NULL;
    bool enough = true;
    lib.callers = threads;
    for (int i = 0; i < threads + 2 && enough; i++) {
        piece *p = mmap(NULL, i == 0 ? LIBRARIES : BUFFER, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        enough = p != MAP_FAILED;
        if (!enough) continue;
        p->next = first;
        first = p;
    }
    for (piece *p = first, *next; p != NULL; p = next) {
        next = p->next;
        munmap(p, next == NULL ? LIBRARIES : BUFFER);
    }
    if (enough) return NULL;
    snprintf(
        lib.refused, sizeof lib.refused,
        "OpenBLAS cannot be used: expected %zu MiB of free addresses for %d threads, found "
        "fewer, with which it never returns (ulimit -v, ulimit -d); MOEFW_GEMM=own does "
        "without it",
        (LIBRARIES + ((size_t)threads + 1) * BUFFER) >> 20, threads);
    return lib.refused;
}

/* Makes OpenBLAS map all buffers that it will need while there is enough memory; OpenBLAS
 * keeps them. */
static void map_buffers(void)
{
    enum { MOST = 256 };
    void *buffer[MOST];
    const int n = lib.callers < MOST ? lib.callers : MOST;
    if (lib.take == NULL || lib.give == NULL) return;
    for (int i = 0; i < n; i++)
        buffer[i] = lib.take(0);
    for (int i = 0; i < n; i++)
        if (buffer[i] != NULL) lib.give(buffer[i]);
}

static void find(void *handle, const char *name, void *to)
{
    void *at = dlsym(handle, name);
    memcpy(to, &at, sizeof at);
}

const char *mf_blas_load(void)
{
    void *handle = dlopen(MF_OPENBLAS_FILE, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(lib.refused, sizeof lib.refused,
                 "OpenBLAS cannot be opened (Debian, Ubuntu: libopenblas0-openmp): %s",
                 dlerror());
        return lib.refused;
    }
    find(handle, "openblas_set_num_threads", &lib.set_threads);
    /* dlsym also searches the libraries that the handle needs */
    find(handle, "omp_set_num_threads", &lib.set_default);
    find(handle, "openblas_get_config", &lib.config);
    find(handle, "openblas_get_corename", &lib.core);
    find(handle, "cblas_sgemm", &lib.sgemm);
    find(handle, "gotoblas_dynamic_init", &lib.init);
    find(handle, "gotoblas_dynamic_quit", &lib.quit);
    find(handle, "blas_memory_alloc", &lib.take);
    find(handle, "blas_memory_free", &lib.give);
    if (lib.set_threads == NULL || lib.config == NULL || lib.sgemm == NULL) {
        dlclose(handle);
        return MF_OPENBLAS_FILE ": expected OpenBLAS with the interface of C";
    }
    choose_core();
    map_buffers();
    return NULL;
}

const char *mf_blas_about(void)
{
    return lib.config();
}

void mf_blas_gemm(const mf_library_call *g)
{
    one_thread();
    lib.sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans,
              g->trans_b ? CblasTrans : CblasNoTrans, (blasint)g->m, (blasint)g->n,
              (blasint)g->k, g->alpha, g->a, (blasint)g->lda, g->b, (blasint)g->ldb, g->beta,
              g->c, (blasint)g->ldc);
}
