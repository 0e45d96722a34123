/* The op, which is added on line 23, fails in the third step. */
#include <moefw/moefw.h>
#define OP "picky"
#define FORWARD                                                                                \
    if (c->exec->training && c->exec->step == 2) return c->fail(c, MF_EPLUGIN, "no more");     \
    y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#define SPOILED
#include "../bad.h"

static mf_tensor *apart(mf_graph *g, mf_tensor *x)
{
    mf_tensor *y = mf_scale(g, x, 1);

    return y;
}

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    mf_tensor *x = apart(g, out->logits);
    out->logits = mf_custom(g, &op, 1, &x, NULL, 1, NULL);
    return mf->status(g);
}
