/* graph/backend.c: chooses the kernel set for the whole process. The first thread that needs it
 * chooses; the set never changes afterwards. */
#include "base/error.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    int code; /* error code if there is no set */
    char message[320];
    const mf_kernels *kernels;
} backend;

/* Writes the error's message "NAME: expected a, b or c, found "x"; did you mean a?". */
static void refuse(const char *variable, const char *found, const char *const *names)
{
    const char *near = mf_nearest(found, names);
    size_t size = sizeof backend.message, used;
    used = (size_t)snprintf(backend.message, size, "%s: expected", variable);
    for (int i = 0; names[i] && used < size; i++)
        used += (size_t)snprintf(backend.message + used, size - used, "%s %s",
                                 i == 0         ? ""
                                 : names[i + 1] ? ","
                                                : " or",
                                 names[i]);
    if (used < size)
        used +=
            (size_t)snprintf(backend.message + used, size - used, ", found \"%.80s\"", found);
    if (near && used < size)
        snprintf(backend.message + used, size - used, "; did you mean %s?", near);
}

static void judge(void)
{
    static const char *const sets[] = {"cpu", "ref", NULL};
    const char *name = getenv("MOEFW_KERNELS"), *isa = getenv("MOEFW_ISA");
    if (!name) name = "";
    backend.kernels = mf_kernels_select(name);
    if (backend.kernels) return;
    backend.code = MF_ECONFIG;
    if (*name && strcmp(name, "cpu") != 0)
        refuse("MOEFW_KERNELS", name, sets);
    else if (mf_kernels_gemm_refused()) {
        backend.code = MF_EDEP;
        snprintf(backend.message, sizeof backend.message, "MOEFW_GEMM=%.20s: %s",
                 getenv("MOEFW_GEMM"), mf_kernels_gemm_refused());
    } else if (!mf_kernels_gemm())
        refuse("MOEFW_GEMM", getenv("MOEFW_GEMM"), mf_kernels_gemms());
    else
        refuse("MOEFW_ISA", isa ? isa : "", mf_kernels_isas());
}

int mf_backend_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, judge);
    return backend.kernels ? MF_OK : mf_fail(backend.code, "%s", backend.message);
}

const mf_kernels *mf_backend_kernels(void)
{
    return mf_backend_init() == MF_OK ? backend.kernels : NULL;
}

const char *mf_backend_blas(void)
{
    const char *gemm = mf_backend_init() == MF_OK ? mf_kernels_gemm() : NULL;
    if (gemm && strcmp(gemm, "openblas") == 0) return mf_kernels_blas();
    return gemm ? gemm : "";
}
