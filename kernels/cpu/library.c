/* library.c: chooses the code that computes plain gemms: our own kernels or OpenBLAS.
 *
 * The program chooses once, from MOEFW_GEMM, before threads start. OpenBLAS is opened only if
 * it is chosen, or to report its version. */
#include "kernels/cpu/library.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernel.h"

static const char *const names[] = {"own", "openblas", NULL};

static struct {
    bool named, blas;    /* named: MOEFW_GEMM made the choice, not the instruction set */
    const char *refused; /* reason why OpenBLAS was requested but cannot be used */
    int threads;         /* number of threads that call kernels at the same time */
} gemms = {.threads = 1};

static struct {
    bool loaded, cramped; /* cramped: OpenBLAS is not loaded, because there is too
                           * little memory */
    const char *why;      /* reason why OpenBLAS cannot be used, or NULL */
} state;

/* Loads OpenBLAS when it is first needed. Returns the reason why it cannot be used, or NULL.
 * Kernels in many threads call this after it is loaded, so nothing is written in that case. */
static const char *load(void)
{
    if (!state.loaded) {
        state.why = mf_blas_room(gemms.threads);
        state.cramped = state.why != NULL;
        if (!state.cramped) state.why = mf_blas_load();
        state.loaded = true;
    }
    return state.why;
}

void mf_kernels_expect_threads(int threads)
{
    gemms.threads = threads;
}

bool mf_kernels_use_gemm(const char *name)
{
    const bool none = name == NULL || name[0] == '\0',
               blas = !none && strcmp(name, names[1]) == 0;
    gemms.refused = NULL;
    if (!none && !blas && strcmp(name, names[0]) != 0) return false;
    if (blas) gemms.refused = load();
    if (gemms.refused != NULL) return false;
    gemms.named = !none;
    gemms.blas = blas;
    return true;
}

bool mf_library_choose(bool fast_own)
{
    if (!mf_kernels_use_gemm(getenv("MOEFW_GEMM"))) return false;
    /* Bits may depend on the installed libraries, but must not depend on the limits that a
     * shell has set. */
    if (!mf_library_chosen(fast_own) && !gemms.named && state.cramped)
        gemms.refused = state.why;
    return gemms.refused == NULL;
}

const char *mf_kernels_gemm_refused(void)
{
    return gemms.refused;
}

const char *const *mf_kernels_gemms(void)
{
    return names;
}

const char *mf_kernels_blas(void)
{
    const char *why = load();
    return why != NULL ? why : mf_blas_about();
}

bool mf_library_chosen(bool fast_own)
{
    if (gemms.named) return gemms.blas;
    return !fast_own && load() == NULL;
}

bool mf_library_gemm(bool fast_own, const mf_library_call *g)
{
    if (!mf_library_chosen(fast_own)) return false;
    mf_blas_gemm(g);
    return true;
}
