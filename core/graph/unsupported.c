/* graph/unsupported.c: finds, before a graph runs, the ops of core for which the device's set
 * lacks a kernel.
 *
 * Ops of core only launch kernels. So an op's function can be called with a set whose kernels
 * do nothing except search for themselves in the device's set. Types, shapes and attributes
 * determine the kernels that an op launches, and they are the same in every run. */
#include "graph/internal.h"

/* A probe replaces the stream in the contexts of the launches. */
typedef struct probe {
    const mf_kernels *set;
    const char *missing; /* the first kernel that the set does not have */
} probe;

static void note(const mf_kctx *x, const char *name, bool has)
{
    probe *p = x->stream;
    if (!has && !p->missing) p->missing = name;
}

#define MF_KERNEL(fn, ...)                                                                     \
    static void probe_##fn(const mf_kctx *x, const mf_##fn##_args *a)                          \
    {                                                                                          \
        (void)a;                                                                               \
        note(x, #fn, ((const probe *)x->stream)->set->fn);                                     \
    }
#include "kernels/kernels.def"

static const mf_kernels probes = {
    .name = "probe",
#define MF_KERNEL(fn, ...) .fn = probe_##fn,
#include "kernels/kernels.def"
};

const char *mf_graph_unsupported(mf_graph *g, const mf_replay *step)
{
    probe p = {.set = mf_device_kernels(g->options.device, NULL)};
    if (!p.set || step->third_party) return NULL;
    mf_launch_init(&g->launch, &probes, g->options.training, 0, 0);
    g->launch.stream = &p;
    (void)step->fn(&step->call);
    g->launch.stream = NULL;
    g->launch.exec.kernels = NULL;
    return p.missing;
}
