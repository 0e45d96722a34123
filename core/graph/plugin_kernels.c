/* graph/plugin_kernels.c: ops of plugins that contain kernels as data (mf_device_code). The
 * kernels are loaded before a graph runs. In a run one launch is queued for each kernel; the
 * plugin describes the launch from shapes. Core fills in all values that the device reads as a
 * pointer or a size. */
#include "graph/device/code.h"
#include "graph/internal.h"

#include "base/error.h"

#include <dlfcn.h>
#include <string.h>

/* Returns an entry of a list. The entries of a plugin have the size that was in use when it
 * was built. */
static const mf_device_kernel *entry(const mf_device_kernel *list, int i)
{
    return (const mf_device_kernel *)(const void *)((const char *)list +
                                                    (size_t)i * list->size);
}

static const mf_device_kernel *list_of(const mf_replay *step, const mf_device_op *l)
{
    return step->node->backward ? l->code->backward : l->code->forward;
}

static int refuse(mf_graph *g, const mf_replay *step, int rc)
{
    const char *scope = step->node->scope;
    Dl_info file = {.dli_fname = NULL};
    (void)dladdr(step->node->op, &file);
    return mf_graph_adopt(g, mf_fail_context(rc, "device code of op %s (%s, plugin %s)",
                                             step->node->op->name, *scope ? scope : "no scope",
                                             file.dli_fname ? file.dli_fname : "unknown"));
}

int mf_plugin_kernels_new(mf_graph *g, mf_replay *step, const mf_device_op *l)
{
    mf_device *d = g->options.device;
    const mf_device_kernel *list = list_of(step, l);
    mf_code *code;
    if (g->options.bare) return MF_OK;
    mf_plugin_kernels *k = mf_arena_alloc(g->memory, sizeof *k);
    if (!k) return mf_graph_adopt(g, MF_ENOMEM);
    *k = (mf_plugin_kernels){.list = list};
    int rc = mf_code_load(d, l->code, &code);
    while (rc == MF_OK && k->n < MF_DEVICE_KERNELS && entry(list, k->n)->name) {
        rc = mf_code_kernel(d, code, entry(list, k->n)->name, &k->kernel[k->n]);
        k->n++;
    }
    if (rc == MF_EDEP) return rc;
    if (rc != MF_OK) return refuse(g, step, rc);
    step->kernels = k;
    return MF_OK;
}

static mf_kernel_args args_of(const mf_graph *g, const mf_call *call)
{
    mf_kernel_args a = {.size = sizeof a,
                        .n_in = call->n_in,
                        .n_out = call->n_out,
                        .work = call->work,
                        .fault = g->launch.fault ? &g->launch.fault->kind : NULL};
    memcpy(a.in, call->in, (size_t)call->n_in * sizeof *a.in);
    memcpy(a.out, call->out, (size_t)call->n_out * sizeof *a.out);
    return a;
}

/* Checks the sizes of a launch. If the device refused them later, the message could not name
 * the kernel. */
static int judge(const mf_call *call, const char *name, const mf_kernel_launch *l)
{
    const uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (l->block[0] <= 1024 && l->block[1] <= 1024 && threads >= 1 && threads <= 1024 &&
        l->grid[0] <= 0x7fffffffu && l->grid[1] <= 65535 && l->grid[2] <= 65535 &&
        l->shared_bytes <= 227u << 10)
        return MF_OK;
    return call->fail(call, MF_EPLUGIN,
                      "the launch of its kernel %s: expected 1 to 1024 threads, at most 65535 "
                      "blocks in the second and third dimension and 232448 bytes of shared "
                      "memory, found block %u x %u x %u, grid %u x %u x %u, %u bytes",
                      name, l->block[0], l->block[1], l->block[2], l->grid[0], l->grid[1],
                      l->grid[2], l->shared_bytes);
}

int mf_plugin_kernels_run(mf_graph *g, const mf_replay *step)
{
    const mf_plugin_kernels *k = step->kernels;
    const mf_call *call = &step->call;
    mf_device *d = g->options.device;
    mf_kernel_args args = args_of(g, call);
    for (int i = 0; i < k->n; i++) {
        const mf_device_kernel *e = entry(k->list, i);
        mf_kernel_launch l = {
            .size = sizeof l, .grid = {1, 1, 1}, .block = {1, 1, 1}, .attr = *call->attr};
        int rc = e->launch(call, &l);
        if (rc == MF_OK) rc = judge(call, e->name, &l);
        if (rc != MF_OK) return rc;
        if (l.grid[0] == 0 || l.grid[1] == 0 || l.grid[2] == 0) continue;
        args.attr = l.attr;
        rc = d->ops->code_launch(d, g->launch.stream, k->kernel[i], &l, &args);
        if (rc != MF_OK)
            return call->fail(call, rc, "its kernel %s: %s", e->name, d->ops->message(d));
    }
    return MF_OK;
}
