/* relu: a router without top-k (Wang et al. 2024, ReMoE, eq. 4-10).
 *
 *     gate_e = relu((W x)_e)      every expert with gate > 0 is used: k varies per token
 *     loss   = lambda / T sum_t sum_e f_e gate_e,   f_e = E / (k T) x tokens that use e
 *     lambda <- lambda * rate^sign(share of gates > 0 - k / E)       after each step
 *
 * The loss is computed in each layer. There is one lambda for the model, which changes by the
 * mean share of all layers, as in the released code (form = released). With form = paper the
 * loss is also divided by E, as in eq. 9, and each layer has its own lambda.
 *
 * The loss moves the mean number of experts per token to the k of the configuration; f balances
 * the loads at the same time (balance = no: f = 1). lambda is saved with the model. Layers have
 * T E assignments, and only those that are used are computed. A capacity (moe.capacity_factor)
 * and moe.dropped = input also use the k of the configuration. Parameters: E d. */
#include <moefw/moefw.h>

enum { RELEASED, PAPER };
static const char *const forms[] = {"released", "paper", NULL};

typedef struct {
    double lambda, rate, init_std;
    int64_t balance, form;
} conf;

typedef struct {
    const conf *c;
    int32_t layer, experts, top_k;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->layer = dims->layer;
    self->experts = dims->experts;
    self->top_k = dims->top_k;
    int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(c->init_std));
    return rc == MF_OK ? mf->buffer(ctx, "lambda", mf_shape1(1), MF_CONST(c->lambda)) : rc;
}

static mf_tensor *sparsity_loss(const router *self, mf_ctx *ctx, mf_graph *g,
                                const mf_router_in *in, mf_tensor *gate, mf_tensor *used)
{
    const double T = (double)in->batch * in->seq, E = self->experts;
    mf_tensor *tokens = NULL;
    if (in->mask) {
        mf_tensor *m = mf_reshape(g, in->mask, mf_shape2((int64_t)T, 1));
        gate = mf_mul(g, gate, m);
        used = mf_mul(g, used, m);
        tokens = mf_clamp(g, mf_sum(g, in->mask, MF_ALL, false), 1, 1e30);
    }
    mf_tensor *sum = mf_sum(g, gate, 1u, false); /* [E] */
    sum = tokens ? mf_div(g, sum, tokens) : mf_scale(g, sum, 1 / T);
    if (self->c->balance) {
        mf_tensor *f = mf_sum(g, used, 1u, false);
        f = tokens ? mf_div(g, f, tokens) : mf_scale(g, f, 1 / T);
        sum = mf_mul(g, sum, mf_scale(g, f, E / self->top_k));
    }
    mf_tensor *loss = mf_sum(g, sum, MF_ALL, true); /* [1] */
    if (self->c->form == PAPER) loss = mf_scale(g, loss, 1 / E);
    return mf_reshape(g, mf_mul(g, loss, mf->use(ctx, g, "lambda")), mf_shape0());
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq, E = self->experts;
    float number[4096];
    if (E > 4096) return mf->fail(ctx, MF_ECONFIG, "at most 4096 experts, not %d", (int)E);
    for (int64_t e = 0; e < E; e++)
        number[e] = (float)(e + 1);
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *gate = mf_relu(g, out->logits);
    mf_tensor *zero = mf_affine(g, mf_stop_gradient(g, gate), 0, 0);
    mf_tensor *used = mf_greater(g, mf_stop_gradient(g, gate), zero); /* [T,E] 0 or 1 */

    /* Assignment (t,e) has expert e if it is used, else -1. This number
     * is used * (e + 1) - 1. */
    mf_tensor *expert = mf_mul(g, used, mf->constant(g, MF_F32, mf_shape2(1, E), number));
    expert = mf_cast(g, mf_affine(g, expert, 1, -1), MF_I32);
    out->expert = mf_reshape(g, expert, mf_shape1(T * E));
    out->gate = mf_reshape(g, gate, mf_shape1(T * E));
    out->own_top_k = (int32_t)E;
    out->prob = mf_div(g, gate, mf_affine(g, mf_sum(g, gate, 2u, true), 1, 1e-9));
    if (mf->training(g)) {
        out->loss_name[0] = "sparsity";
        out->loss[0] = sparsity_loss(self, ctx, g, in, gate, used);
        out->n_losses = 1;
    }
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    int64_t n = 0;
    float *lambda = mf->data(ctx, "lambda", &n);
    double above = 0;
    for (int32_t l = 0; lambda && l < step->n_layers; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        if (self->c->form == PAPER && s->layer != self->layer) continue;
        above += s->rows_per_token - self->top_k;
    }
    if (!lambda) return MF_OK;
    const double factor = above > 0 ? self->c->rate : above < 0 ? 1 / self->c->rate : 1;
    const double next = (double)*lambda * factor;
    *lambda = (float)(next < 1e-12 ? 1e-12 : next > 1e6 ? 1e6 : next);
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, lambda, "1e-8", 1e-12, 1e6, 0, "start of the loss's weight"),
    MF_OPTION_REAL(conf, rate, "1.2", 1, 10, MF_OPT_LIVE, "factor by which it is turned"),
    MF_OPTION_ENUM(conf, form, "released", forms,
                   "loss and lambda of the released code, or of the paper for each layer"),
    MF_OPTION_BOOL(conf, balance, "yes", 0, "weigh each expert's gates by its load"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), MF_ROUTER_STATS, init, NULL, route,
                                 after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "relu", "1.0", "MIT",
                                  "ReLU gates: as many experts as a token wants (ReMoE)",
                                  options, conf, router, &vtable);
