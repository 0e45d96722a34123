/* graph/fallback.c: runs an op on the host in a graph on a device, if the device cannot run the
 * op. It copies the op's data to the host, calls its host function, and copies the results
 * back. Such ops are plugins' ops without launch functions or code for this device, and core's
 * ops that launch a kernel that the device's set lacks.
 *
 * All fallbacks of a graph share one staging block, because they run one after another. Values
 * that share memory on the device (ops in place) also share memory in the staging block. */
#include "graph/internal.h"

#include "base/log.h"
#include "kernels/kernel.h"

#include <stdio.h>
#include <string.h>

static size_t reserve(mf_fallback *d, size_t bytes)
{
    const size_t at = d->bytes;
    d->bytes += bytes == 0 ? 64 : (bytes + 63) & ~(size_t)63;
    return at;
}

static void add(mf_fallback *d, const mf_view *v, bool in)
{
    mf_fallback_part *p = d->part;
    /* stored weights are also in memory of the host */
    if (!v->data || v->reserved & MF_VIEW_STORED) return;
    while (p < d->part + d->n && p->device != v->data)
        p++;
    if (p == d->part + d->n) {
        const size_t bytes = mf_shape_bytes(v->shape, v->dtype);
        *p = (mf_fallback_part){.device = v->data, .at = reserve(d, bytes), .bytes = bytes};
        d->n++;
    }
    p->in = p->in || in;
    p->out = p->out || !in;
}

/* Logs, once per op and once per kernel, that the host computes the op; or refuses it. no_code:
 * the device has a text that says why it cannot use the op's code. */
static int tell(mf_graph *g, const mf_node *node, const char *missing, bool no_code)
{
    mf_device *d = g->options.device;
    const char *why = no_code ? d->ops->message(d) : NULL;
    char text[512];
    snprintf(text, sizeof text, "%s%s (%s) %s%s for device %s%s%s%s", node->op->name,
             node->backward ? " backward" : "", *node->scope ? node->scope : "no scope",
             missing   ? "needs the kernel "
             : no_code ? "has no code"
                       : "has no launch function",
             missing ? missing : "", mf_device_name(d), missing ? ", which has none" : "",
             why ? ": " : "", why ? why : "");
    if (d->host_ops_refused) {
        mf_fail(MF_EDEP, "%s; device.strict = no lets it run on the host", text);
        return mf_graph_adopt(g, MF_EDEP);
    }
    if (mf_device_tell(d, missing ? (const void *)missing : node->op))
        mf_log(MF_LOG_INFO, "%s: it runs on the host", text);
    return MF_OK;
}

int mf_fallback_new(mf_graph *g, mf_replay *step, const char *missing, bool no_code)
{
    const mf_call *call = &step->call;
    const mf_node *node = step->node;
    mf_fallback *d = mf_arena_alloc(g->memory, sizeof *d);
    if (!d) return mf_graph_adopt(g, MF_ENOMEM);
    for (int i = 0; i < call->n_in; i++)
        add(d, &call->in[i], true);
    for (int i = 0; i < call->n_out; i++)
        add(d, &call->out[i], false);
    d->fault_at = reserve(d, sizeof(mf_fault));
    d->work_at = reserve(d, node->backward ? node->backward_work_bytes : node->work_bytes);
    if (d->bytes > g->staging_bytes) g->staging_bytes = d->bytes;
    step->fallback = d;
    return tell(g, node, missing, no_code);
}

static void place(const mf_graph *g, const mf_fallback *d, mf_view *v)
{
    if (v->data && v->reserved & MF_VIEW_STORED)
        v->data = (void *)(uintptr_t)((const mf_stored *)v->data)->home;
    for (int i = 0; v->data && i < d->n; i++)
        if (d->part[i].device == v->data) {
            v->data = g->staging + d->part[i].at;
            return;
        }
}

void mf_fallback_place(mf_graph *g, mf_replay *step)
{
    mf_view *views = step->call.out - step->call.n_in; /* the views of inputs come first */
    for (int i = 0; i < step->call.n_in + step->call.n_out; i++)
        place(g, step->fallback, &views[i]);
    step->call.work = g->staging + step->fallback->work_at;
}

/* Copies to the host the values that the op reads, and the fault of earlier kernels. After a
 * fault indices may be wrong, so the op must not run. Before copying, it waits for the copies
 * of the previous fallback, because they read from the same staging block. */
static int fetch(mf_graph *g, const mf_fallback *d)
{
    mf_device *device = g->options.device;
    int rc = mf_device_wait(device);
    if (rc == MF_OK)
        rc = mf_device_read(device, g->staging + d->fault_at, device->fault, sizeof(mf_fault));
    for (int i = 0; rc == MF_OK && i < d->n; i++)
        if (d->part[i].in)
            rc = mf_device_read(device, g->staging + d->part[i].at, d->part[i].device,
                                d->part[i].bytes);
    if (rc == MF_OK) rc = mf_device_wait(device);
    if (rc != MF_OK) return rc;
    return mf_graph_judge_fault(g, (const mf_fault *)(const void *)(g->staging + d->fault_at));
}

/* Calls the op's function with the host's kernels. */
static int call_host(mf_graph *g, const mf_replay *step)
{
    mf_fallback *d = step->fallback;
    mf_launch *l = &g->launch;
    const mf_launch device = *l;
    mf_fault *fault = (mf_fault *)(void *)(g->staging + d->fault_at);
    if (step->third_party) return step->fn(&step->call);
    d->key = (mf_draw_key){l->exec.seed, l->exec.step};
    l->exec.kernels = g->host_kernels;
    l->fault = fault;
    l->key = &d->key;
    l->stream = NULL;
    const int rc = step->fn(&step->call);
    *l = device;
    return rc == MF_OK ? mf_graph_judge_fault(g, fault) : rc;
}

int mf_fallback_run(mf_graph *g, mf_replay *step)
{
    const mf_fallback *d = step->fallback;
    int rc = fetch(g, d);
    if (rc == MF_OK) rc = call_host(g, step);
    for (int i = 0; rc == MF_OK && i < d->n; i++)
        if (d->part[i].out)
            rc = mf_device_write(g->options.device, d->part[i].device,
                                 g->staging + d->part[i].at, d->part[i].bytes);
    if (rc == MF_OK) g->options.device->fallbacks++;
    return rc;
}
