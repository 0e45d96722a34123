/* The result of the logarithm on line 12 is NaN. */
#include <moefw/moefw.h>
#define ROUTE dark
static int dark(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int dark(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *negative = mf_affine(g, mf_square(g, out->logits), -1, -1);

    out->logits = mf_ln(g, negative);
    return mf->status(g);
}
