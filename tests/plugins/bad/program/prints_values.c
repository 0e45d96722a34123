/* This good router prints its logits and the token ids to the log. */
#include <moefw/moefw.h>
#define ROUTE shows
static int shows(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int shows(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->logits = mf_print(g, out->logits, "logits");
    mf_print(g, in->token_ids, "ids");
    return mf->status(g);
}
