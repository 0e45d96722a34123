/* An op of the training graph writes the sum of the logits to a buffer, which then contains
 * only the sum of the last micro-batch. */
#define AFTER after
#define ROUTE keeping
#define BEFORE                                                                                 \
    if (mf->buffer(ctx, "sum", mf_shape1(1), MF_ZEROS) != MF_OK ||                             \
        mf->buffer(ctx, "mean", mf_shape1(1), MF_ZEROS) != MF_OK)                              \
        return MF_EPLUGIN;
#include <moefw/moefw.h>
static int after(void *, mf_ctx *, const mf_step *);
static int keeping(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int keep_infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int keep(const mf_call *c)
{
    *(float *)c->out[0].data = *(const float *)c->in[1].data;
    return MF_OK;
}

static const mf_opdef keep_op = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_STATE | MF_OP_NO_GRAD,
                                 .name = "keep",
                                 .infer = keep_infer,
                                 .forward = keep};

static int keeping(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *y = mf_square(g, out->logits);
    if (in->mask)
        y = mf_mul(g, y, mf_reshape(g, in->mask, mf_shape2((int64_t)in->batch * in->seq, 1)));
    mf_tensor *write[] = {mf->use(ctx, g, "sum"), mf_sum(g, y, MF_ALL, false)};
    if (mf->training(g)) mf->custom(g, &keep_op, 2, write, NULL, 1, NULL);
    return mf->status(g);
}

static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    float *mean = mf->data(ctx, "mean", NULL);
    (void)self;
    (void)step;
    *mean += 0.1f * (*mf->data(ctx, "sum", NULL) - *mean);
    return MF_OK;
}
