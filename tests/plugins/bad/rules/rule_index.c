/* route assigns tokens to an expert that does not exist. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    (void)self;
    (void)ctx;
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *one = mf_affine(g, mf_mean(g, in->x, 2u, false), 0, in->experts);
    out->expert = mf_reshape(g, mf_cast(g, one, MF_I32), mf_shape1(T));
    out->own_top_k = 1;
    return mf->status(g);
}
