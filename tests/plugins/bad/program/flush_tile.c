/* A tile of the op sets flush-to-zero on the thread that runs it. */
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

static void tile(void *arg, int64_t t)
{
    (void)arg;
    if (t == 3) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8000u);
}

static int forward(const mf_call *c)
{
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        y[i] = x[i];
    c->exec->parallel(c->exec, 4, tile, 0);
    return MF_OK;
}

static const mf_opdef op = {.size = sizeof(mf_opdef),
                            .flags = MF_OP_NO_GRAD,
                            .name = "flusher",
                            .infer = infer,
                            .forward = forward};

static int spoiled(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_routing *out)
{
    route(self, ctx, g, in, out);
    out->score = mf->custom(g, &op, 1, &out->logits, NULL, 1, NULL);
    return mf->status(g);
}
