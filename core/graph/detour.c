/* graph/detour.c: runs an op without launch functions in a graph on a device: copies its data
 * to the host, calls its host function, and copies the results back.
 *
 * All detours of a graph share one staging block, since they run one after another. Values that
 * share memory on the device (ops in place) also share memory in the staging block. */
#include "graph/internal.h"

#include "base/log.h"

#include <string.h>

static size_t reserve(mf_detour *d, size_t bytes)
{
    const size_t at = d->bytes;
    d->bytes += bytes == 0 ? 64 : (bytes + 63) & ~(size_t)63;
    return at;
}

static void add(mf_detour *d, const mf_view *v, bool in)
{
    mf_detour_part *p = d->part;
    if (!v->data) return;
    while (p < d->part + d->n && p->device != v->data)
        p++;
    if (p == d->part + d->n) {
        const size_t bytes = mf_shape_bytes(v->shape, v->dtype);
        *p = (mf_detour_part){.device = v->data, .at = reserve(d, bytes), .bytes = bytes};
        d->n++;
    }
    p->in = p->in || in;
    p->out = p->out || !in;
}

static void tell(mf_device *d, const mf_node *node)
{
    if (!mf_device_tell(d, node->op)) return;
    mf_log(MF_LOG_INFO, "%s (%s) has no launch function for device %s: it runs on the host",
           node->op->name, *node->scope ? node->scope : "no scope", mf_device_name(d));
}

int mf_detour_new(mf_graph *g, mf_replay *step)
{
    const mf_call *call = &step->call;
    const mf_node *node = step->node;
    mf_detour *d = mf_arena_alloc(g->memory, sizeof *d);
    if (!d) return mf_graph_adopt(g, MF_ENOMEM);
    for (int i = 0; i < call->n_in; i++)
        add(d, &call->in[i], true);
    for (int i = 0; i < call->n_out; i++)
        add(d, &call->out[i], false);
    d->fault_at = reserve(d, sizeof(mf_fault));
    d->work_at = reserve(d, node->backward ? node->backward_work_bytes : node->work_bytes);
    if (d->bytes > g->staging_bytes) g->staging_bytes = d->bytes;
    step->detour = d;
    tell(g->options.device, node);
    return MF_OK;
}

static void place(const mf_graph *g, const mf_detour *d, mf_view *v)
{
    for (int i = 0; v->data && i < d->n; i++)
        if (d->part[i].device == v->data) {
            v->data = g->staging + d->part[i].at;
            return;
        }
}

void mf_detour_place(mf_graph *g, mf_replay *step)
{
    mf_view *views = step->call.out - step->call.n_in; /* the views of inputs come first */
    for (int i = 0; i < step->call.n_in + step->call.n_out; i++)
        place(g, step->detour, &views[i]);
    step->call.work = g->staging + step->detour->work_at;
}

/* Copies to the host the values that the op reads, and the fault of earlier kernels: after a
 * fault indices may be wrong, and the op must not run. */
static int fetch(mf_graph *g, const mf_detour *d)
{
    mf_device *device = g->options.device;
    int rc = mf_device_read(device, g->staging + d->fault_at, device->fault, sizeof(mf_fault));
    for (int i = 0; rc == MF_OK && i < d->n; i++)
        if (d->part[i].in)
            rc = mf_device_read(device, g->staging + d->part[i].at, d->part[i].device,
                                d->part[i].bytes);
    if (rc == MF_OK) rc = mf_device_wait(device);
    if (rc != MF_OK) return rc;
    return mf_graph_judge_fault(g, (const mf_fault *)(const void *)(g->staging + d->fault_at));
}

int mf_detour_run(mf_graph *g, mf_replay *step)
{
    const mf_detour *d = step->detour;
    int rc = fetch(g, d);
    if (rc == MF_OK) rc = step->fn(&step->call);
    for (int i = 0; rc == MF_OK && i < d->n; i++)
        if (d->part[i].out)
            rc = mf_device_write(g->options.device, d->part[i].device,
                                 g->staging + d->part[i].at, d->part[i].bytes);
    if (rc == MF_OK) g->options.device->fallbacks++;
    return rc;
}
