/* unsteady: a linear router that is wrong in one of four ways (WRONG). Its op multiplies by
 * numbers of rand(), by a mean of its earlier inputs, or by its first input. In the fourth way,
 * its after_step adds numbers of rand() to a buffer. */
#include <moefw/moefw.h>
#include <stdlib.h>

#ifndef WRONG
#define WRONG 0
#endif

enum { NOISE, MEMORY, FIRST, AFTER };

typedef struct {
    int64_t unused;
} conf;

typedef struct {
    const conf *c;
} router;

static float seen;

static float factor(const mf_view *x)
{
    const float *v = x->data;
    if (WRONG == AFTER) return 1;
    if (WRONG == NOISE) return 1 + 1e-3f * (float)(rand() % 100);
    if (WRONG == MEMORY) seen = 0.9f * seen + 0.1f * v[0];
    if (WRONG == FIRST && seen == 0) seen = v[0];
    return 1 + 0.1f * seen;
}

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int forward(const mf_call *call)
{
    const float f = factor(&call->in[0]), *x = call->in[0].data;
    float *y = call->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(call->in[0].shape); i++)
        y[i] = f * x[i];
    return MF_OK;
}

static int backward(const mf_call *call)
{
    const float *dy = call->in[2].data;
    float *dx = call->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(call->in[0].shape); i++)
        dx[i] = dy[i];
    return MF_OK;
}

static const mf_opdef unsteady = {.size = sizeof(mf_opdef),
                                  .flags = MF_OP_STRAIGHT_THROUGH,
                                  .name = "unsteady",
                                  .formula = "y = f x",
                                  .infer = infer,
                                  .forward = forward,
                                  .backward = backward,
                                  .diff_in = 1u};

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    ((router *)self)->c = conf_;
    const int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.2));
    return rc == MF_OK ? mf->buffer(ctx, "drawn", mf_shape1(1), MF_ZEROS) : rc;
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_tensor *l = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    (void)self;
    out->logits = mf->custom(g, &unsteady, 1, &l, NULL, 1, NULL);
    return mf->status(g);
}

static int after_step(void *self, mf_ctx *ctx, const struct mf_step *step)
{
    int64_t n;
    float *drawn = mf->data(ctx, "drawn", &n);
    (void)self;
    (void)step;
    if (WRONG == AFTER) drawn[0] += (float)(rand() % 100);
    return MF_OK;
}

static const mf_option options[] = {MF_OPTION_INT(conf, unused, "0", 0, 1, 0, "not used"),
                                    MF_END_OPTIONS};

static const mf_router vtable = {
    .size = sizeof(mf_router), .init = init, .route = route, .after_step = after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "unsteady", "1.0", "MIT",
                                  "wrong on purpose", options, conf, router, &vtable);
