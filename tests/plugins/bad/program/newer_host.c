/* With LATER the router calls mf_host.later, a function that exists only in newer headers. With
 * ASKS it first tests whether the host has the function. */
#include <moefw/moefw.h>
#define ROUTE ahead
static int ahead(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int ahead(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
#ifdef LATER
#ifdef ASKS
    if (MF_HAS(mf, mf_host, later))
#endif
        mf->later(ctx);
#endif
    return route(self, ctx, g, in, out);
}
