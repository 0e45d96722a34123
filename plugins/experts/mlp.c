/* mlp: the feed-forward expert of a transformer (Vaswani et al. 2017, eq. 2).
 *
 *     y = W2 act(W1 x + b1) + b2      per expert; W1 [h,d], W2 [d,h]
 *
 * Parameters per expert: 2 d h (+ h + d with bias).
 */
#include <moefw/moefw.h>
#include <math.h>

enum { RELU, GELU, GELU_TANH, SILU };
static const char *const activations[] = {"relu", "gelu", "gelu_tanh", "silu", NULL};

typedef struct {
    int64_t hidden, activation, bias, same_start;
    double init_std;
} conf;

typedef struct {
    const conf *c;
} expert;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    expert *self = self_;
    const conf *c = self->c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 4 * d;
    const mf_init_kind kind = c->same_start ? MF_INIT_ROWS_SAME : MF_INIT_NORMAL;
    /* Residual branches start smaller the deeper the model is (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    int rc = mf->param(ctx, "w1", mf_shape3(E, h, d),
                       mf_init_of(kind, c->init_std, MF_PARAM_BY_EXPERT));
    if (rc == MF_OK)
        rc = mf->param(ctx, "w2", mf_shape3(E, d, h),
                       mf_init_of(kind, out_std, MF_PARAM_BY_EXPERT));
    const mf_init zero = mf_init_of(MF_INIT_ZERO, 0, MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY);
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "b1", mf_shape2(E, h), zero);
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "b2", mf_shape2(E, d), zero);
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
    default:
        h = mf_silu(g, h);
        break;
    }
    *ret_y = mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), in->offset, b2);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_ENUM(conf, activation, "gelu", activations, "nonlinearity"),
    MF_OPTION_BOOL(conf, bias, "yes", 0, "biases b1 and b2"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_BOOL(conf, same_start, "no", 0, "all experts begin with equal weights"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "mlp", "1.0", "MIT",
                                  "two linear layers with ReLU, GELU or SiLU between", options,
                                  conf, expert, &vtable);
