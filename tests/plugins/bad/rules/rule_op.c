/* The op accesses memory through a null pointer while the graph runs. */
#include <moefw/moefw.h>
#define ROUTE spoiled
static int spoiled(void *, mf_ctx *, mf_graph *, const mf_router_in *, mf_routing *);
#include "../bad.h"

static int infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int forward(const mf_call *c)
{
    (void)c;
    *(volatile int *)8 = 1;
    return MF_OK;
}

static const mf_opdef crash = {.size = sizeof(mf_opdef),
                               .flags = MF_OP_NO_GRAD,
                               .name = "crash",
                               .infer = infer,
                               .forward = forward};

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->score = mf->custom(g, &crash, 1, &out->logits, NULL, 1, NULL);
    return mf->status(g);
}
