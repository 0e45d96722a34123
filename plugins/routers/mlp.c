/* mlp: a small network before the softmax (DBGW, arXiv 2506.16419, section III-B3).
 *
 *     logits = W2 act(W1 n(x) + b1) + b2,   P = softmax(logits / temperature)
 *
 * n is LayerNorm or the identity (input_norm). The paper counts 101,000 parameters (d 768, 8
 * experts, hidden 128), which includes LayerNorm. Its equation has no norm; without the norm
 * there are 99,464. */
#include <moefw/moefw.h>

enum { NONE, LAYERNORM };
static const char *const norms[] = {"none", "layernorm", NULL};
enum { GELU, RELU, SILU, TANH };
static const char *const activations[] = {"gelu", "relu", "silu", "tanh", NULL};

typedef struct {
    int64_t hidden, activation, input_norm;
    double init_std, temperature;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    const mf_init weight = MF_NORMAL(c->init_std);
    int rc = MF_OK;
    if (c->input_norm == LAYERNORM) {
        rc = mf->param(ctx, "norm.weight", mf_shape1(dims->dim), MF_CONST(1));
        if (rc == MF_OK) rc = mf->param(ctx, "norm.bias", mf_shape1(dims->dim), MF_ZEROS);
    }
    if (rc == MF_OK) rc = mf->param(ctx, "w1", mf_shape2(c->hidden, dims->dim), weight);
    if (rc == MF_OK) rc = mf->param(ctx, "b1", mf_shape1(c->hidden), MF_ZEROS);
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape2(dims->experts, c->hidden), weight);
    if (rc == MF_OK) rc = mf->param(ctx, "b2", mf_shape1(dims->experts), MF_ZEROS);
    return rc;
}

static mf_tensor *activate(mf_graph *g, mf_tensor *h, int64_t kind)
{
    switch (kind) {
    case GELU:
        return mf_gelu(g, h);
    case RELU:
        return mf_relu(g, h);
    case SILU:
        return mf_silu(g, h);
    default:
        return mf_tanh(g, h);
    }
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *x = in->x;
    if (c->input_norm == LAYERNORM)
        x = mf_layernorm(g, x, mf->use(ctx, g, "norm.weight"), mf->use(ctx, g, "norm.bias"),
                         1e-5);
    mf_tensor *h = mf_linear(g, x, mf->use(ctx, g, "w1"), mf->use(ctx, g, "b1"));
    h = activate(g, h, c->activation);
    mf_tensor *logits = mf_linear(g, h, mf->use(ctx, g, "w2"), mf->use(ctx, g, "b2"));
    out->logits = mf_div(g, logits, mf->live(ctx, g, "temperature"));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "128", 1, 65536, 0, "hidden width"),
    MF_OPTION_ENUM(conf, activation, "gelu", activations, "nonlinearity"),
    MF_OPTION_ENUM(conf, input_norm, "layernorm", norms, "norm before the first layer"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "mlp", "1.0", "MIT",
                   "two layers with a nonlinearity between", options, conf, router, &vtable);
