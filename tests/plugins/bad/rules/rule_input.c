/* The op writes into its input. */
#define OP          "halve"
#define OP_BACKWARD .flags = MF_OP_NO_GRAD
#define FORWARD     y[i] = x[i], x[i] = 0.5f * x[i];
#define SPOILED
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *x = mf->custom(g, &op, 1, &in->x, NULL, 1, NULL);
    out->score = mf_linear(g, x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}
