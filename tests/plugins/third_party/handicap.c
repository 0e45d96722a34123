/* handicap: a router that is known to be worse. A comparison must detect this.
 *
 * It is a linear router. For a share of the tokens (default 10 %), its best expert is exchanged
 * with a random expert, which gets the logit of the best one, and so its gate. */
#include <moefw/moefw.h>

/* Under another name the same router begins with other weights, because initial weights are
 * drawn by name. */
#ifndef WEIGHT
#define WEIGHT "weight"
#define NAME   "handicap"
#endif

typedef struct {
    double share;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    self->c = conf_;
    return mf->param(ctx, WEIGHT, mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.02));
}

/* One-hot rows that mark the largest element of each row of x. */
static mf_tensor *largest(mf_graph *g, mf_tensor *x, int64_t T, int64_t E)
{
    return mf_reshape(g, mf_one_hot(g, mf_topk(g, x, 1), E), mf_shape2(T, E));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    const float share = (float)self->c->share;
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, WEIGHT), NULL);
    mf_tensor *best = largest(g, logits, T, E);
    mf_tensor *other = largest(g, mf_uniform(g, mf_shape2(T, E)), T, E);
    mf_tensor *coin = mf_greater(g, mf->constant(g, MF_F32, mf_shape1(1), &share),
                                 mf_uniform(g, mf_shape2(T, 1)));
    mf_tensor *away = mf_sub(g, other, best);
    mf_tensor *gap = mf_scale(g, mf_sum(g, mf_mul(g, logits, away), 2u, true), -1);
    out->logits = mf_add(g, logits, mf_mul(g, mf_mul(g, gap, coin), away));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, share, "0.1", 0, 1, 0, "of the tokens that are led astray"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, NAME, "1.0", "MIT",
                   "linear, led astray for some tokens", options, conf, router, &vtable);
