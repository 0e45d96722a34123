/* route reads later tokens of the sequence, but no flag declares this. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    (void)self;
    const mf_shape by_sequence = mf_shape3(in->batch, in->seq, mf->shape(in->x).dim[1]);
    mf_tensor *x = mf_reshape(g, in->x, by_sequence);
    x = mf_reshape(g, mf_sub(g, x, mf_mean(g, x, 2u, true)), mf->shape(in->x));
    out->logits = mf_linear(g, x, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}
