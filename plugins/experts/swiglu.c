/* swiglu: the gated feed-forward expert of LLaMA and Mixtral (Shazeer 2020, eq. 6).
 *
 *     y = W2 (silu(W1 x) * W3 x)      per expert; W1, W3 [h,d], W2 [d,h], no biases
 *
 * The router's gates g are applied to the hidden values: W2 (g h) = g (W2 h). W1 and W3 lie one
 * after the other in "w13" [E,2h,d], so that one gemm computes both. Parameters per expert: 3
 * d h. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t hidden, same_start, init;
    double init_std;
} conf;

static mf_init weight_init(const conf *c, double std)
{
    const uint32_t flags = MF_PARAM_BY_EXPERT | (c->same_start ? MF_PARAM_ALIKE : 0u);
    return c->init == UNIFORM ? mf_init_of(MF_INIT_KAIMING, 1, flags)
                              : mf_init_of(MF_INIT_NORMAL, std, flags);
}

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)self;
    const conf *c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 4 * d;
    /* Residual branches start smaller in deeper models (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    int rc = mf->param(ctx, "w13", mf_shape3(E, 2 * h, d), weight_init(c, c->init_std));
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape3(E, d, h), weight_init(c, out_std));
    return rc;
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    const bool gated = in->size >= offsetof(mf_expert_in, gate) + sizeof in->gate;
    mf_tensor *h = mf_grouped_linear(g, in->x, mf->use(ctx, g, "w13"), in->offset, NULL);
    h = mf_swiglu_gated(g, h, NULL, gated ? in->gate : NULL);
    *ret_y = mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), in->offset, NULL);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_BOOL(conf, same_start, "no", 0, "all experts begin with equal weights"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), MF_EXPERT_GATES, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "swiglu", "1.0", "MIT",
                   "gated feed-forward: W2 (silu(W1 x) * W3 x)", options, conf, char, &vtable);
