/* route adds values whose shapes do not fit, on line 12. */
#include <moefw/moefw.h>
#define ROUTE misfit
static int misfit(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int misfit(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->score = mf_add(g, in->x, out->logits);
    return mf->status(g);
}
