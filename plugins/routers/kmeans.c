/* kmeans: experts are centroids of the tokens, which follow them without a gradient (online
 * k-means: MacQueen 1967; with moving averages as in van den Oord et al. 2017, appendix A.1).
 *
 *     z_e = -|x - c_e|^2 / (temperature sqrt(d)),   P = softmax(z)
 *     after each step   c_e = decay c_e + (1 - decay) mean of the tokens nearest to c_e
 *
 * The mean is over all tokens of the step: their sum and number are a tally, so it does not
 * depend on the number of micro-batches and ranks. A centroid that is nearest to no token stays
 * as it is. Core selects the k nearest experts, because z falls with the distance. A selection
 * bias of a controller changes this choice, but not which tokens a centroid follows.
 * Parameters: none. c is saved with the model. */
#include <moefw/moefw.h>
#include <math.h>

typedef struct {
    double decay, temperature, init_std;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, dim;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = conf_;
    const int64_t E = dims->experts, d = dims->dim;
    *(router *)self_ = (router){c, E, d};
    int rc = mf->buffer(ctx, "centroid", mf_shape2(E, d), MF_NORMAL(c->init_std));
    return rc == MF_OK ? mf->tally(ctx, "sum", mf_shape2(E, d + 1), 0) : rc;
}

/* Adds the tokens that are nearest to each centroid, and their number, to the tally. */
static void follow(const router *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_tensor *z)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const float one = 1;
    mf_tensor *nearest = mf_reshape(g, mf_topk(g, z, 1), mf_shape1(T));
    mf_tensor *of = mf_one_hot(g, nearest, self->experts); /* [T,E] */
    if (in->mask) of = mf_mul(g, of, mf_reshape(g, in->mask, mf_shape2(T, 1)));
    mf_tensor *ones = mf->constant(g, MF_F32, mf_shape2(1, 1), &one);
    mf_tensor *both[2] = {mf_stop_gradient(g, in->x), mf_broadcast(g, ones, mf_shape2(T, 1))};
    mf->count(ctx, g, "sum", mf_matmul(g, of, true, mf_concat(g, 2, both, 1), false, 1));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    mf_tensor *c = mf->use(ctx, g, "centroid");
    mf_tensor *cross = mf_matmul(g, in->x, false, c, true, 2); /* [T,E] */
    mf_tensor *length = mf_sum(g, mf_square(g, c), 2u, false);
    mf_tensor *near = mf_sub(g, cross, mf_reshape(g, length, mf_shape2(1, self->experts)));
    near = mf_sub(g, near, mf_sum(g, mf_square(g, in->x), 2u, true));
    near = mf_scale(g, near, 1 / sqrt((double)self->dim));
    out->logits = mf_div(g, near, mf->live(ctx, g, "temperature"));
    if (mf->training(g)) follow(self, ctx, g, in, out->logits);
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    const double decay = self->c->decay;
    float *c = mf->data(ctx, "centroid", NULL);
    const double *sum = mf->sum(ctx, "sum", NULL);
    if (!c || !sum || step->skipped) return MF_OK;
    for (int64_t e = 0; e < self->experts; e++) {
        const double *s = sum + e * (self->dim + 1), n = s[self->dim];
        float *at = c + e * self->dim;
        for (int64_t i = 0; i < self->dim && n > 0; i++)
            at[i] = (float)(decay * (double)at[i] + (1 - decay) * s[i] / n);
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, decay, "0.99", 0, 1, 0, "share of a centroid that stays in each step"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE,
                   "divides the distances; below 1 sharpens the gates"),
    MF_OPTION_REAL(conf, init_std, "1", 0, 10, 0, "standard deviation of the start centroids"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    .size = sizeof(mf_router), .init = init, .route = route, .after_step = after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "kmeans", "1.0", "MIT",
                                  "the nearest centroids, which follow their tokens", options,
                                  conf, router, &vtable);
