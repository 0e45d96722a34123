/* route assigns a token to the same expert twice. */
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
    mf_tensor *zeros = mf_affine(g, mf_mean(g, in->x, 2u, false), 0, 0); /* [T] */
    mf_tensor *column = mf_reshape(g, zeros, mf_shape2(T, 1));
    mf_tensor *const both[2] = {column, column};
    mf_tensor *pairs = mf_concat(g, 2, both, 1);
    out->expert = mf_reshape(g, mf_cast(g, pairs, MF_I32), mf_shape1(2 * T));
    out->own_top_k = 2;
    return mf->status(g);
}
