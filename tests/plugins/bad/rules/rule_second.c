/* An op with two inputs computes the gradient of its second input with the wrong sign. */
#include <moefw/moefw.h>
#define INIT  with_scale
#define ROUTE spoiled
static int with_scale(void *, mf_ctx *, const void *, const mf_dims *);
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

/* y[t,e] = x[t,e] s[e] */
static int forward(const mf_call *c)
{
    const float *x = c->in[0].data, *s = c->in[1].data;
    const int64_t E = c->in[0].shape.dim[1];
    float *y = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        y[i] = x[i] * s[i % E];
    return MF_OK;
}

static int backward(const mf_call *c)
{
    const float *x = c->in[0].data, *s = c->in[1].data, *dy = c->in[3].data;
    const int64_t E = c->in[0].shape.dim[1], n = mf_shape_count(c->in[0].shape);
    float *dx = c->out[0].data, *ds = c->out[1].data;
    for (int64_t i = 0; dx && i < n; i++)
        dx[i] = dy[i] * s[i % E];
    for (int64_t e = 0; ds && e < E; e++)
        ds[e] = 0;
    for (int64_t i = 0; ds && i < n; i++)
        ds[i % E] -= dy[i] * x[i];
    return MF_OK;
}

static const mf_opdef scale = {.size = sizeof(mf_opdef),
                               .name = "scale_experts",
                               .infer = infer,
                               .forward = forward,
                               .backward = backward,
                               .backward_in = 3,
                               .diff_in = 3};

static int with_scale(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    int rc = init(self, ctx, c, dims);
    return rc == MF_OK ? mf->param(ctx, "scale", mf_shape1(dims->experts), MF_NORMAL(1)) : rc;
}

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *const both[2] = {out->logits, mf->use(ctx, g, "scale")};
    out->logits = mf->custom(g, &scale, 2, both, NULL, 1, NULL);
    return mf->status(g);
}
