/* route reads all tokens of the batch, but no flag declares this. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    (void)self;
    mf_tensor *x = mf_sub(g, in->x, mf_mean(g, in->x, 1u, true));
    out->logits = mf_linear(g, x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}
