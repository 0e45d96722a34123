/* An op of its own that writes into its input. */
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
    float *x = (float *)(uintptr_t)c->in[0].data, *y = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++) {
        y[i] = x[i];
        x[i] = 0.5f * x[i];
    }
    return MF_OK;
}

static const mf_opdef halve = {.size = sizeof(mf_opdef), .flags = MF_OP_NO_GRAD, .name = "halve",
                               .infer = infer, .forward = forward};

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *x = mf->custom(g, &halve, 1, &in->x, NULL, 1, NULL);
    out->score = mf_linear(g, x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}
