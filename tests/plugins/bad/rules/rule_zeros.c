/* route divides by the norm of a vector, which may be zero. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    (void)self;
    mf_tensor *length = mf_sqrt(g, mf_sum(g, mf_square(g, in->x), 2u, true));
    out->logits = mf_linear(g, mf_div(g, in->x, length), mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}
