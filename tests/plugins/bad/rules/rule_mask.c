/* A loss of this router counts padding. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->loss[0] = mf_mean(g, mf_square(g, out->logits), MF_ALL, false);
    out->loss_name[0] = "size";
    out->n_losses = 1;
    return mf->status(g);
}
