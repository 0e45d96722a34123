/* library.c: chooses what computes plain gemms: our own kernels or a library.
 *
 * The program chooses once, from MOEFW_GEMM, before threads start. A library is opened only if
 * it is chosen, or to report its version. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/library.h"

enum { OPENBLAS, ONEDNN, LIBRARIES };
static const mf_library *const libraries[LIBRARIES] = {&mf_library_openblas,
                                                       &mf_library_onednn};

static struct {
    bool named;              /* false: chosen by instruction set */
    const mf_library *which; /* NULL: our own kernels */
    const char *refused;     /* why the wanted library cannot be used */
    int threads;             /* that call kernels at the same time */
} gemms = {.threads = 1};

static struct {
    bool loaded, cramped; /* cramped: not loaded, since memory is too little */
    const char *why;      /* it cannot be used, or NULL */
} state[LIBRARIES];

/* Loads a library when it is first needed. Returns why it cannot be used, or NULL. Kernels, in
 * many threads, call this for a library that is loaded, so nothing is written then. */
static const char *load(int which)
{
    const mf_library *library = libraries[which];
    if (!state[which].loaded) {
        state[which].why = library->room != NULL ? library->room(gemms.threads) : NULL;
        state[which].cramped = state[which].why != NULL;
        if (!state[which].cramped) state[which].why = library->load();
        state[which].loaded = true;
    }
    return state[which].why;
}

void mf_kernels_expect_threads(int threads)
{
    gemms.threads = threads;
}

bool mf_kernels_use_gemm(const char *name)
{
    gemms.refused = NULL;
    if (name == NULL || name[0] == '\0' || strcmp(name, "own") == 0) {
        gemms.named = name != NULL && name[0] != '\0';
        gemms.which = NULL;
        return true;
    }
    for (int i = 0; i < LIBRARIES; i++)
        if (strcmp(libraries[i]->name, name) == 0) {
            gemms.refused = load(i);
            if (gemms.refused != NULL) return false;
            gemms.named = true;
            gemms.which = libraries[i];
            return true;
        }
    return false;
}

bool mf_library_choose(bool fast_own)
{
    if (!mf_kernels_use_gemm(getenv("MOEFW_GEMM"))) return false;
    /* Bits depend on what is installed, but not on what limits a shell has set. */
    if (mf_library_chosen(fast_own) == NULL && !gemms.named && state[OPENBLAS].cramped)
        gemms.refused = state[OPENBLAS].why;
    return gemms.refused == NULL;
}

const char *mf_kernels_gemm_refused(void)
{
    return gemms.refused;
}

const char *const *mf_kernels_gemms(void)
{
    static const char *names[LIBRARIES + 2] = {"own"};
    for (int i = 0; i < LIBRARIES; i++)
        names[i + 1] = libraries[i]->name;
    return names;
}

static const char *about(int which)
{
    const char *why = load(which);
    return why != NULL ? why : libraries[which]->about();
}

const char *mf_kernels_onednn(void)
{
    return about(ONEDNN);
}

const char *mf_kernels_blas(void)
{
    return about(OPENBLAS);
}

const mf_library *mf_library_chosen(bool fast_own)
{
    if (gemms.named) return gemms.which;
    return fast_own || load(OPENBLAS) != NULL ? NULL : &mf_library_openblas;
}

bool mf_library_gemm(bool fast_own, const mf_library_call *g)
{
    const mf_library *library = mf_library_chosen(fast_own);
    return library != NULL && library->gemm(g);
}

void mf_library_one_thread(bool fast_own)
{
    const mf_library *library = mf_library_chosen(fast_own);
    if (library != NULL) library->one_thread();
}
