/* graph/backend.c: the kernel set in force. */
#include "base/error.h"
#include "graph/graph.h"
#include "kernels/kernel.h"

#include <stdlib.h>

static struct {
    bool judged;
    int code;
    const char *name;
    const mf_kernels *kernels;
} backend;

static int refuse(void)
{
    static const char *const names[] = {"cpu", "ref", NULL};
    const char *near = mf_nearest(backend.name, names);
    return mf_fail(MF_ECONFIG, "MOEFW_KERNELS: expected cpu or ref, found \"%s\"%s%s%s",
                   backend.name, near ? "; did you mean " : "", near ? near : "",
                   near ? "?" : "");
}

int mf_backend_init(void)
{
    if (!backend.judged) {
        backend.name = getenv("MOEFW_KERNELS");
        if (!backend.name) backend.name = "";
        backend.kernels = mf_kernels_select(backend.name);
        backend.judged = true;
    }
    return backend.kernels ? MF_OK : refuse();
}

const mf_kernels *mf_backend_kernels(void)
{
    return mf_backend_init() == MF_OK ? backend.kernels : NULL;
}
