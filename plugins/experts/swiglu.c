/* swiglu: the gated feed-forward expert of LLaMA and Mixtral (Shazeer 2020, eq. 6).
 *
 *     y = W2 (silu(W1 x) * W3 x)      per expert; W1, W3 [h,d], W2 [d,h], no biases
 *
 * gpt-oss (OpenAI 2025) adds biases, a limit L, alpha and shift:
 *
 *     u = min(W1 x + b1, L),  v = min(max(W3 x + b3, -L), L)
 *     y = W2 (u sigmoid(alpha u) * (v + shift)) + b2
 *
 * In the first form without biases the router's gates g are applied to the hidden values: W2 (g
 * h) = g (W2 h). W1 and W3 are one after the other in "w13" [E,2h,d], so that one gemm computes
 * both, and b1 and b3 are in "b13". An expert has 3 d h (+ 2 h + d) parameters. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t hidden, same_start, init, bias;
    double init_std, limit, alpha, shift;
} conf;

typedef struct {
    const conf *c;
} expert;

static mf_init weight_init(const conf *c, double std)
{
    const uint32_t flags = MF_PARAM_BY_EXPERT | (c->same_start ? MF_PARAM_ALIKE : 0u);
    return c->init == UNIFORM ? mf_init_of(MF_INIT_KAIMING, 1, flags)
                              : mf_init_of(MF_INIT_NORMAL, std, flags);
}

static mf_init bias_init(void)
{
    return mf_init_of(MF_INIT_ZERO, 0, MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY);
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    expert *self = self_;
    const conf *c = self->c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 4 * d;
    /* Residual branches start smaller in deeper models (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    mf_init in = weight_init(c, c->init_std);
    in.flags |= MF_PARAM_HALVES;
    int rc = mf->param(ctx, "w13", mf_shape3(E, 2 * h, d), in);
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape3(E, d, h), weight_init(c, out_std));
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "b13", mf_shape2(E, 2 * h), bias_init());
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "b2", mf_shape2(E, d), bias_init());
    return rc;
}

/* x [R,2h] -> [R,h]: the limited form. */
static mf_tensor *limited(const conf *c, mf_graph *g, mf_tensor *x)
{
    const int64_t h = mf->shape(x).dim[1] / 2;
    mf_tensor *u = mf_slice(g, x, 1, 0, h), *v = mf_slice(g, x, 1, h, h);
    if (c->limit > 0) u = mf_clamp(g, u, -1e30, c->limit);
    if (c->limit > 0) v = mf_clamp(g, v, -c->limit, c->limit);
    u = mf_mul(g, u, mf_sigmoid(g, mf_scale(g, u, c->alpha)));
    return mf_mul(g, u, c->shift != 0 ? mf_affine(g, v, 1, c->shift) : v);
}

static int forward(void *self_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const conf *c = ((const expert *)self_)->c;
    mf_tensor *gate =
        in->size >= offsetof(mf_expert_in, gate) + sizeof in->gate ? in->gate : NULL;
    mf_tensor *b13 = c->bias ? mf->use(ctx, g, "b13") : NULL,
              *b2 = c->bias ? mf->use(ctx, g, "b2") : NULL;
    const bool plain = c->limit == 0 && c->alpha == 1 && c->shift == 0;
    mf_tensor *h = mf_grouped_linear(g, in->x, mf->use(ctx, g, "w13"), in->offset, b13);
    if (!plain) h = limited(c, g, h);
    /* W2 (g h) + b2 is not g (W2 h + b2), so with biases the gates are applied last. */
    if (plain) h = mf_swiglu_gated(g, h, NULL, b2 ? NULL : gate);
    mf_tensor *y = mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), in->offset, b2);
    *ret_y = gate && (b2 || !plain) ? mf_mul(g, y, gate) : y;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_BOOL(conf, same_start, "no", 0, "all experts begin with equal weights"),
    MF_OPTION_BOOL(conf, bias, "no", 0, "biases of both layers, which begin at 0"),
    MF_OPTION_REAL(conf, limit, "0", 0, 1e6, 0,
                   "limit of the hidden values before the nonlinearity; 0: none"),
    MF_OPTION_REAL(conf, alpha, "1", 1e-3, 1e3, 0, "factor inside the sigmoid of silu"),
    MF_OPTION_REAL(conf, shift, "0", -1e3, 1e3, 0, "added to W3 x"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), MF_EXPERT_GATES, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "swiglu", "1.0", "MIT",
                                  "gated feed-forward: W2 (silu(W1 x) * W3 x)", options, conf,
                                  expert, &vtable);
