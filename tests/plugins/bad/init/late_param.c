/* route declares a parameter, but only init may declare parameters. */
#define ROUTE late
#include <moefw/moefw.h>
static int late(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int late(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf->param(ctx, "late", mf_shape1(4), MF_ZEROS);
    return route(self, ctx, g, in, out);
}
