/* This good router prints its logits, the token ids, and constants of two types to the log. */
#include <moefw/moefw.h>
#define ROUTE shows
static int shows(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int shows(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->logits = mf_print(g, out->logits, "logits");
    mf_print(g, in->token_ids, "ids");
    mf_print(g, mf->constant(g, MF_F32, mf_shape1(3), (float[]){1, -2.5f, 4.5f}), "reals");
    mf_print(g, mf->constant(g, MF_I32, mf_shape1(2), (int32_t[]){7, -9}), "whole");
    return mf->status(g);
}
