/* An op without a gradient on the way from the loss to its weights. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "bad.h"

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int forward(const mf_call *c)
{
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        y[i] = 2 * x[i];
    return MF_OK;
}

static const mf_opdef twice = {.size = sizeof(mf_opdef), .name = "twice", .infer = infer,
                               .forward = forward, .diff_in = 1};

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->logits = mf->custom(g, &twice, 1, &out->logits, NULL, 1, NULL);
    return mf->status(g);
}
