/* The result of the op depends on the number of its calls, so no two runs are equal. */
static int calls;
#define OP       "count"
#define FORWARD  calls += i == 0, y[i] = x[i] + (float)(calls % 5);
#define BACKWARD dx[i] = dy[i];
#define SPOILED
#include "../bad.h"

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *l = mf->custom(g, &op, 1, &out->logits, NULL, 1, NULL);
    out->logits = mf_mul(g, l, l); /* a shift of all logits alone would not change
                                    * the probabilities */
    return mf->status(g);
}
