/* route accesses memory through a null pointer if a sequence has only one position. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    if (in->seq == 1) *(volatile int *)8 = 1; /* true for a single token per sequence */
    return route(self, ctx, g, in, out);
}
