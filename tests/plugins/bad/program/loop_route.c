/* route never returns. */
#include <moefw/moefw.h>
#define ROUTE endless
static int endless(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int endless(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    for (volatile int64_t i = 0; in->experts > 0; i++)
        continue;
    return route(self, ctx, g, in, out);
}
