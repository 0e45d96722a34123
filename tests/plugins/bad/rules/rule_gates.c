/* route declares normalised gates, but sets each gate to 0.7. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    (void)self;
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->expert = mf_reshape(g, mf_topk(g, logits, 1), mf_shape1(T));
    out->gate = mf_affine(g, mf_mean(g, in->x, 2u, false), 0, 0.7);
    out->own_top_k = 1;
    out->renormalize = 1;
    return mf->status(g);
}
