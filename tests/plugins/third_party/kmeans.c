/* kmeans: experts are centroids. Each centroid is a moving average of the tokens that are
 * nearest to it (van den Oord et al. 2017, appendix A.1). The logits are -|x - c|^2 /
 * temperature, up to a number that is the same for all experts. No parameter is learned by
 * gradient. Sums and counts of the tokens are a tally, from which after_step updates the
 * centroids, a buffer. */
#include <moefw/moefw.h>

typedef struct {
    double decay, temperature;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, dim;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    *self = (router){conf_, dims->experts, dims->dim};
    int rc = mf->buffer(ctx, "centroid", mf_shape2(dims->experts, dims->dim), MF_NORMAL(1));
    if (rc == MF_OK) rc = mf->tally(ctx, "sum", mf_shape2(dims->experts, dims->dim + 1), 0);
    return rc;
}

/* Adds the tokens nearest to each centroid, and their number, to the tally [E,d+1]. */
static void gather(const router *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                   mf_tensor *logits)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const float one = 1;
    mf_tensor *nearest =
        mf_one_hot(g, mf_reshape(g, mf_topk(g, logits, 1), mf_shape1(T)), self->experts);
    if (in->mask) nearest = mf_mul(g, nearest, mf_reshape(g, in->mask, mf_shape2(T, 1)));
    mf_tensor *ones =
        mf_broadcast(g, mf->constant(g, MF_F32, mf_shape2(1, 1), &one), mf_shape2(T, 1));
    mf_tensor *both[2] = {mf_stop_gradient(g, in->x), ones};
    mf->count(ctx, g, "sum", mf_matmul(g, nearest, true, mf_concat(g, 2, both, 1), false, 1));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    mf_tensor *c = mf->use(ctx, g, "centroid");
    mf_tensor *cross = mf_matmul(g, in->x, false, c, true, 2);
    mf_tensor *length =
        mf_reshape(g, mf_sum(g, mf_square(g, c), 2u, false), mf_shape2(1, self->experts));
    out->logits = mf_scale(g, mf_sub(g, cross, length), 1 / self->c->temperature);
    if (mf->training(g)) gather(self, ctx, g, in, out->logits);
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    const double decay = self->c->decay;
    float *c = mf->data(ctx, "centroid", NULL);
    const double *sum = mf->sum(ctx, "sum", NULL);
    (void)step;
    for (int64_t e = 0; e < self->experts; e++) {
        const double *s = sum + e * (self->dim + 1);
        const double count = s[self->dim];
        for (int64_t i = 0; i < self->dim && count > 0; i++) {
            float *at = c + e * self->dim + i;
            *at = (float)(decay * *at + (1 - decay) * s[i] / count);
        }
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, decay, "0.99", 0, 1, 0, "of the moving average"),
    MF_OPTION_REAL(conf, temperature, "8", 0.1, 1000, 0, "divides the distances"),
    MF_END_OPTIONS};

static const mf_router vtable = {
    .size = sizeof(mf_router), .init = init, .route = route, .after_step = after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "kmeans", "1.0", "MIT",
                                  "the nearest centroid, followed by a moving average", options,
                                  conf, router, &vtable);
