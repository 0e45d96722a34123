/* tally.c: a router that counts its choices over a whole step and balances the experts by them.
 *
 *     cc -shared -fPIC -O2 $(pkg-config --cflags moefw) -o tally.so tally.c
 *     moefw plugin check ./tally.so && moefw --plugin ./tally.so --steps 50
 *
 * The k experts with the largest p + b are chosen, p = softmax(W x). A step has several
 * micro-batches, perhaps on several ranks, and each graph sees one of them. The tally has the
 * sum over all of them, so after_step computes the same b on each rank. */
#include <moefw/moefw.h>

typedef struct {
    double rate;
} conf;

typedef struct {
    const conf *c;
    int32_t experts;
} router;

static int init(void *self_, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    *(router *)self_ = (router){c, dims->experts};
    const mf_shape experts = mf_shape1(dims->experts);
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
    if (rc == MF_OK) rc = mf->buffer(ctx, "bias", experts, MF_ZEROS);
    /* Counts are whole numbers, so their sum is exact in any order. */
    return rc == MF_OK ? mf->tally(ctx, "chosen", experts, MF_TALLY_WHOLE) : rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->prob = mf_softmax(g, out->logits);
    out->score = mf_add(g, mf_stop_gradient(g, out->prob), mf->use(ctx, g, "bias"));
    if (!mf->training(g)) return mf->status(g);

    /* Each token counts with its mask, or with 1 if there is no mask, so padding does
     * not count. */
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *best = mf_topk(g, out->score, in->top_k); /* [T,k] */
    mf_tensor *weight = NULL;
    if (in->mask) {
        const mf_shape each = mf_shape2(T, in->top_k);
        weight = mf_broadcast(g, mf_reshape(g, in->mask, mf_shape2(T, 1)), each);
    }
    mf->count(ctx, g, "chosen", mf_bincount(g, best, weight, self->experts));
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    float *b = mf->data(ctx, "bias", NULL);
    const double *count = mf->sum(ctx, "chosen", NULL);
    double mean = 0;
    if (step->skipped) return MF_OK; /* the sums are 0 then */
    for (int32_t e = 0; e < self->experts; e++)
        mean += count[e] / self->experts;
    for (int32_t e = 0; e < self->experts; e++)
        b[e] += (float)(self->c->rate * ((count[e] < mean) - (count[e] > mean)));
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, rate, "0.001", 0, 1, 0, "size of one correction of the bias"),
    MF_END_OPTIONS};

static const mf_router vtable = {
    .size = sizeof(mf_router), .init = init, .route = route, .after_step = after_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "tally", "1.0", "MIT",
                   "balanced by counts of the whole step", options, conf, router, &vtable);
