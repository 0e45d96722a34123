/* The loss is divided by E - 1, the number of other experts, which may be 0. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    const float others = (float)(in->experts - 1);
    mf_tensor *n = mf->constant(g, MF_F32, mf_shape0(), &others);
    mf_tensor *w = mf->use(ctx, g, "weight");
    out->loss[0] = mf_div(g, mf_mean(g, mf_square(g, w), MF_ALL, false), n);
    out->loss_name[0] = "per_other";
    out->n_losses = 1;
    return mf->status(g);
}
