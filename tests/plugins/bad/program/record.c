/* route sets the reserved field of the routing record. */
#include <moefw/moefw.h>
#define ROUTE marks
static int marks(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int marks(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    out->reserved = 1;
    return route(self, ctx, g, in, out);
}
