/* The order of a sum depends on the number of threads, because each thread computes a
 * partial sum. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

#include <stdatomic.h>

enum { SLOTS = 64 };
static _Atomic int next_slot;
static _Thread_local int slot = -1;

typedef struct {
    const float *x;
    float sum[SLOTS];
    int64_t n, tile;
} job;

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    in->out[0].shape = mf_shape1(1);
    return MF_OK;
}

static void add_tile(void *arg, int64_t tile)
{
    job *j = arg;
    if (slot < 0) slot = atomic_fetch_add(&next_slot, 1) % SLOTS;
    for (int64_t i = tile * j->tile; i < (tile + 1) * j->tile && i < j->n; i++)
        j->sum[slot] += j->x[i] * j->x[i];
}

static int forward(const mf_call *c)
{
    job j = {.x = c->in[0].data, .n = mf_shape_count(c->in[0].shape), .tile = 16};
    float *y = c->out[0].data;
    c->exec->parallel(c->exec, (j.n + j.tile - 1) / j.tile, add_tile, &j);
    y[0] = 0;
    for (int i = 0; i < SLOTS; i++)
        y[0] += j.sum[i];
    return MF_OK;
}

static const mf_opdef sum = {.size = sizeof(mf_opdef),
                             .flags = MF_OP_NO_GRAD,
                             .name = "sum_by_thread",
                             .infer = infer,
                             .forward = forward};

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *s = mf->custom(g, &sum, 1, &out->logits, NULL, 1, NULL);
    out->loss[0] = mf_reshape(g, s, mf_shape0());
    out->loss_name[0] = "sum";
    out->n_losses = 1;
    return mf->status(g);
}
