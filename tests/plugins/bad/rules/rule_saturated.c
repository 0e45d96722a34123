/* The router's own loss computes the logarithm of its probabilities, which may be 0. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *p = out->prob = mf_softmax(g, out->logits);
    out->loss[0] = mf_mean(g, mf_mul(g, p, mf_ln(g, p)), MF_ALL, false);
    out->loss_name[0] = "log";
    out->n_losses = 1;
    return mf->status(g);
}
