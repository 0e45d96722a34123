/* gated: an expert of two linear layers with a leaky ReLU between them.
 *
 *     y = W2 (g f(W1 x + b)),  f(v) = v where v > 0, else slope v
 */
#include <moefw/moefw.h>

enum { BENT, SILU };
static const char *const activations[] = {"bent", "silu", NULL};

typedef struct {
    int64_t hidden, activation, bias;
    double slope;
} conf;

typedef struct {
    const conf *c;
} expert;

/* ---- f, whose gradient is composed of other ops ---- */

static int leak_infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int leak_forward(const mf_call *c)
{
    const float *x = c->in[0].data;
    float *y = c->out[0].data;
    const float slope = (float)c->attr->f[0];
    const int64_t n = mf_shape_count(c->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] > 0 ? x[i] : slope * x[i];
    return MF_OK;
}

static int leak_grad(mf_graph *g, const mf_gradient *at)
{
    const float zero = 0;
    mf_tensor *z = mf->constant(g, MF_F32, mf_shape0(), &zero);
    mf_tensor *up = mf_greater(g, at->in[0], z);
    mf_tensor *factor = mf_affine(g, up, 1 - at->attr->f[0], at->attr->f[0]);
    at->din[0] = mf_mul(g, at->dout[0], factor);
    return mf->status(g);
}

static const mf_opdef leak = {.size = sizeof(mf_opdef),
                              .name = "leak_01",
                              .formula = "y = x where x > 0, else slope x",
                              .infer = leak_infer,
                              .forward = leak_forward,
                              .grad = leak_grad,
                              .diff_in = 1};

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((expert *)self)->c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 2 * d;
    int rc = mf->param(ctx, "w1", mf_shape3(E, h, d),
                       mf_init_of(MF_INIT_KAIMING, 1, MF_PARAM_BY_EXPERT));
    if (rc == MF_OK && c->bias)
        rc = mf->param(ctx, "b1", mf_shape2(E, h),
                       mf_init_of(MF_INIT_ZERO, 0, MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY));
    if (rc == MF_OK)
        rc = mf->param(ctx, "w2", mf_shape3(E, d, h),
                       mf_init_of(MF_INIT_NORMAL, 0.02, MF_PARAM_BY_EXPERT | MF_PARAM_ALIKE));
    return rc;
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const conf *c = ((expert *)self)->c;
    mf_attr a = mf_attr0();
    a.f[0] = c->slope;
    mf_tensor *h = mf_grouped_linear(g, in->x, mf->use(ctx, g, "w1"), in->offset,
                                     c->bias ? mf->use(ctx, g, "b1") : NULL);
    h = c->activation == SILU ? mf_silu(g, h) : mf->custom(g, &leak, 1, &h, &a, 1, NULL);
    if (MF_HAS(in, mf_expert_in, gate) && in->gate) h = mf_mul(g, h, in->gate);
    *ret_y = mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), in->offset, NULL);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 65536, 0, "hidden width; 0 means 2 x dim"),
    MF_OPTION_ENUM(conf, activation, "bent", activations, "what lies between the products"),
    MF_OPTION_BOOL(conf, bias, "yes", 0, "bias behind the first product"),
    MF_OPTION_REAL(conf, slope, "0.1", 0, 1, 0, "slope below zero"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), MF_EXPERT_GATES, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "gated", "1.0", "MIT",
                   "two products with a bent line between", options, conf, expert, &vtable);
