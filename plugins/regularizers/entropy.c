/* entropy: measures how undecided the router is about a token.
 *
 *     H_t = -sum p ln p,   loss = mean over real tokens of H_t
 *
 * A positive weight concentrates the probabilities of a token, a negative weight makes them
 * equal. over = chosen uses the k largest probabilities, renormalised (TAGAT; at most ln k);
 * over = all uses all probabilities (at most ln E). layers = sum adds the losses of layers, as
 * in TAGAT; layers = mean averages them. pad = count includes padding. detach = yes keeps the
 * value and removes the gradient. */
#include <moefw/moefw.h>

enum { CHOSEN, ALL };
static const char *const overs[] = {"chosen", "all", NULL};
enum { SUM, MEAN };
static const char *const reductions[] = {"sum", "mean", NULL};

enum { SKIP, COUNT };
static const char *const pads[] = {"skip", "count", NULL};

typedef struct {
    int64_t over, layers, pad, detach;
} conf;

typedef struct {
    const conf *c;
} regularizer;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx;
    (void)dims;
    ((regularizer *)self)->c = conf_;
    return MF_OK;
}

static mf_tensor *mean_entropy(const conf *c, mf_graph *g, const mf_routing *r)
{
    mf_tensor *p = r->prob;
    if (c->over == CHOSEN) {
        p = mf_take(g, p, mf_topk(g, p, r->top_k < r->experts ? r->top_k : r->experts));
        p = mf_div(g, p, mf_affine(g, mf_sum(g, p, 2u, true), 1, 1e-20));
    }
    mf_tensor *h = mf_scale(g, mf_sum(g, mf_xlogx(g, p), 2u, false), -1); /* [T] */
    if (!r->mask || c->pad == COUNT) return mf_mean(g, h, MF_ALL, false);
    return mf_div(g, mf_sum(g, mf_mul(g, h, r->mask), MF_ALL, false),
                  mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)ctx;
    const conf *c = ((regularizer *)self)->c;
    const float zero = 0;
    mf_tensor *total = NULL;
    int32_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!routing[i]->prob) continue;
        mf_tensor *h = mean_entropy(c, g, routing[i]);
        total = total ? mf_add(g, total, h) : h;
        used++;
    }
    if (!used)
        *ret_loss = mf->constant(g, MF_F32, mf_shape0(), &zero);
    else
        *ret_loss = c->layers == SUM ? total : mf_scale(g, total, 1.0 / used);
    if (c->detach) *ret_loss = mf_stop_gradient(g, *ret_loss);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, over, "chosen", overs, "gates of the chosen, or all probabilities"),
    MF_OPTION_ENUM(conf, layers, "sum", reductions, "add layers up, or average them"),
    MF_OPTION_ENUM(conf, pad, "skip", pads, "does padding count"),
    MF_OPTION_BOOL(conf, detach, "no", 0, "no gradient: measured only"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "entropy", "1.0", "MIT",
                   "mean entropy of a token's gates", options, conf, regularizer, &vtable);
