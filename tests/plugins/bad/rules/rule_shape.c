/* route returns one logit too many for each token. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    (void)self;
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *const both[2] = {logits, mf_sum(g, logits, 2u, true)};
    out->logits = mf_concat(g, 2, both, 1);
    return mf->status(g);
}
