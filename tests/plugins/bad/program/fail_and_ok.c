/* route reports a failure and then returns MF_OK. */
#include <moefw/moefw.h>
#define ROUTE forgetful
static int forgetful(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int forgetful(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                     mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf->fail(ctx, MF_EPLUGIN, "expected a colder day");
    return MF_OK;
}
