/* graph/backend.c: chooses the kernel set for the whole process. The first thread that needs
 * the set chooses it; the set never changes afterwards. Only threads that compute need it. The
 * choice is made late because a library that computes gemms takes much memory as soon as it
 * is opened. */
#include "base/error.h"
#include "base/thread/parallel.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verdict {
    int code; /* MF_OK: a set was chosen */
    char message[320];
} verdict;

static verdict names, set;
static const mf_kernels *chosen;

/* Writes the error's message "NAME: expected a, b or c, found "x"; did you mean a?". */
static void refuse(const char *variable, const char *found, const char *const *valid)
{
    const char *near = mf_nearest(found, valid);
    size_t size = sizeof names.message, used;
    names.code = MF_ECONFIG;
    used = (size_t)snprintf(names.message, size, "%s: expected", variable);
    for (int i = 0; valid[i] && used < size; i++)
        used += (size_t)snprintf(names.message + used, size - used, "%s %s",
                                 i == 0         ? ""
                                 : valid[i + 1] ? ","
                                                : " or",
                                 valid[i]);
    if (used < size)
        used += (size_t)snprintf(names.message + used, size - used, ", found \"%.80s\"", found);
    if (near && used < size)
        snprintf(names.message + used, size - used, "; did you mean %s?", near);
}

/* Whether the variable has a valid value, or none. */
static bool is_valid(const char *variable, const char *const *valid)
{
    const char *found = getenv(variable);
    if (!found || found[0] == '\0') return true;
    for (int i = 0; valid[i]; i++)
        if (strcmp(valid[i], found) == 0) return true;
    refuse(variable, found, valid);
    return false;
}

static void judge_names(void)
{
    static const char *const sets[] = {"cpu", "ref", NULL};
    const char *name = getenv("MOEFW_KERNELS");
    if (!is_valid("MOEFW_KERNELS", sets) || (name && strcmp(name, "ref") == 0)) return;
    if (is_valid("MOEFW_GEMM", mf_kernels_gemms())) is_valid("MOEFW_ISA", mf_kernels_isas());
}

int mf_backend_names(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, judge_names);
    return names.code == MF_OK ? MF_OK : mf_fail(names.code, "%s", names.message);
}

static void choose(void)
{
    const char *gemm = getenv("MOEFW_GEMM");
    const int threads = mf_parallel_threads(), usual = mf_parallel_usual_threads();
    /* OpenBLAS has a buffer for each processor, even if fewer threads compute. */
    mf_kernels_expect_threads(threads > usual ? threads : usual);
    mf_parallel_on_begin(mf_kernels_begin_thread);
    chosen = mf_kernels_select(getenv("MOEFW_KERNELS"));
    if (chosen) return;
    set.code = MF_EDEP;
    snprintf(set.message, sizeof set.message, "%s%.20s%s%s", gemm ? "MOEFW_GEMM=" : "",
             gemm ? gemm : "", gemm ? ": " : "", mf_kernels_gemm_refused());
}

int mf_backend_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int rc = mf_backend_names();
    if (rc != MF_OK) return rc;
    pthread_once(&once, choose);
    return set.code == MF_OK ? MF_OK : mf_fail(set.code, "%s", set.message);
}

const mf_kernels *mf_backend_kernels(void)
{
    return mf_backend_init() == MF_OK ? chosen : NULL;
}

const char *mf_backend_blas(void)
{
    const char *gemm = mf_backend_init() == MF_OK ? mf_kernels_gemm() : NULL;
    if (gemm && strcmp(gemm, "openblas") == 0) return mf_kernels_blas();
    return gemm ? gemm : "";
}
