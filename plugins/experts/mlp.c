/* mlp: the feed-forward expert of a transformer (Vaswani et al. 2017, eq. 2).
 *
 *     y = W2 act(W1 x + b1) + b2      per expert; W1 [h,d], W2 [d,h]
 *
 * The activation relu2 is max(0, x)^2 (So et al. 2021, Primer).
 *
 * Parameters per expert: 2 d h (+ h + d with bias). */
#include <moefw/moefw.h>
#include <math.h>

enum { RELU, GELU, GELU_TANH, SILU, RELU2 };
static const char *const activations[] = {"relu", "gelu", "gelu_tanh", "silu", "relu2", NULL};

enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t hidden, activation, bias, same_start, init;
    double init_std, dropout;
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

static mf_init bias_init(const conf *c, int64_t inputs)
{
    uint32_t flags = MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY;
    if (c->init == NORMAL) return mf_init_of(MF_INIT_ZERO, 0, flags);
    if (c->same_start) flags |= MF_PARAM_ALIKE;
    return mf_init_of(MF_INIT_UNIFORM, 1 / sqrt((double)inputs), flags);
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    expert *self = self_;
    const conf *c = self->c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 4 * d;
    /* Residual branches start smaller in deeper models (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    int rc = mf->param(ctx, "w1", mf_shape3(E, h, d), weight_init(c, c->init_std));
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape3(E, d, h), weight_init(c, out_std));
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "b1", mf_shape2(E, h), bias_init(c, d));
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "b2", mf_shape2(E, d), bias_init(c, h));
    return rc;
}

static int forward(void *self_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const conf *c = ((const expert *)self_)->c;
    mf_tensor *b1 = c->bias ? mf->use(ctx, g, "b1") : NULL;
    mf_tensor *b2 = c->bias ? mf->use(ctx, g, "b2") : NULL;
    mf_tensor *h = mf_grouped_linear(g, in->x, mf->use(ctx, g, "w1"), in->offset, b1);
    switch (c->activation) {
    case RELU:
        h = mf_relu(g, h);
        break;
    case GELU:
        h = mf_gelu(g, h);
        break;
    case GELU_TANH:
        h = mf_gelu_tanh(g, h);
        break;
    case RELU2:
        h = mf_square(g, mf_relu(g, h));
        break;
    default:
        h = mf_silu(g, h);
        break;
    }
    if (c->dropout > 0) h = mf_dropout(g, h, c->dropout);
    *ret_y = mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), in->offset, b2);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_ENUM(conf, activation, "gelu", activations, "nonlinearity"),
    MF_OPTION_BOOL(conf, bias, "yes", 0, "biases b1 and b2"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, dropout, "0", 0, 0.99, 0,
                   "share of hidden units set to 0 while training"),
    MF_OPTION_BOOL(conf, same_start, "no", 0, "all experts begin with equal weights"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "mlp", "1.0", "MIT",
                                  "two linear layers with a nonlinearity between", options,
                                  conf, expert, &vtable);
