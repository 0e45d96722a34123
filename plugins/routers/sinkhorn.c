/* sinkhorn: balanced choice in training, plain top-k otherwise (Clark et al. 2022, section
 * B.2.1; the relaxed form of BASE, Lewis et al. 2021).
 *
 *     A = e^(logits - the token's largest logit); `iterations` times the columns are scaled so
 *     that each expert has mass 1 / E, then the rows so that each token has 1 / T; the k
 *     largest of a scaled row are chosen. gate = softmax or sigmoid of the chosen logits: the
 *     scaling has no gradient. Gates by sigmoid are not renormalised.
 *
 * Columns are scaled first, so the subtraction has an effect: every token begins with the same
 * largest element. Padding has no mass. The scaling is over all tokens of a micro-batch,
 * including all documents of a packed sequence. In training a token's choice depends on the
 * other tokens of the batch; in evaluation and generation it does not. Parameters: E d. */
#include <moefw/moefw.h>

enum { SOFTMAX, SIGMOID };
static const char *const gates[] = {"softmax", "sigmoid", NULL};

typedef struct {
    int64_t iterations, gate;
    double init_std, temperature;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

/* Returns e^logits [T,E] after c->iterations scalings of columns and rows, without a gradient.
 * Padding has no mass. */
static mf_tensor *balance(const conf *c, mf_graph *g, const mf_router_in *in, mf_tensor *logits)
{
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    logits = mf_stop_gradient(g, logits);
    mf_tensor *a = mf_exp(g, mf_sub(g, logits, mf_row_max(g, logits)));
    mf_tensor *mask = in->mask ? mf_reshape(g, in->mask, mf_shape2(T, 1)) : NULL;
    if (mask) a = mf_mul(g, a, mask);
    for (int64_t i = 0; i < c->iterations; i++) {
        /* each expert gets the mass 1 / E */
        a = mf_div(g, a, mf_affine(g, mf_sum(g, a, 1u, true), (double)E, 1e-20));
        /* each token gets the mass 1 / T */
        a = mf_div(g, a, mf_affine(g, mf_sum(g, a, 2u, true), (double)T, 1e-20));
    }
    return a;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->logits = mf_div(g, logits, mf->live(ctx, g, "temperature"));
    if (c->gate == SIGMOID) {
        out->prob = mf_sigmoid(g, out->logits);
        out->renormalize = 0;
    }
    if (mf->training(g))
        out->score = balance(c, g, in, out->logits);
    else
        out->score = mf_stop_gradient(g, out->logits);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, iterations, "8", 1, 1000, 0, "rounds of scaling"),
    MF_OPTION_ENUM(conf, gate, "softmax", gates, "what gates are made of"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    .size = sizeof(mf_router), .flags = MF_ROUTER_TRAIN_BATCH, .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "sinkhorn", "1.0", "MIT",
                                  "balanced assignment in training by Sinkhorn's scaling",
                                  options, conf, router, &vtable);
