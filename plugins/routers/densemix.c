/* densemix: DenseMixer (Yao et al. 2025): the router also gets the gradient of experts that are
 * not chosen.
 *
 *     p = softmax(W x), choose the k largest; n is the sum of their p
 *     gate = p / n of chosen experts,  0 of others, with the gradient of p / stop(n)
 *
 * n is 1 with renormalize = no, and with renormalize = auto if k = 1. In training the experts
 * that are not chosen are computed, too, so that the router learns from their outputs. These
 * experts count nowhere and do not learn from this computation. With others = m they are only
 * the m most probable ones. The result is a straight-through gradient of the choice. In
 * evaluation it is the router `linear`. moe.renormalize has no effect. In training a layer
 * costs E / k times as much in the forward pass, or (k + m) / k times with others = m.
 * Parameters: E d. */
#include <moefw/moefw.h>
#include <stdio.h>

enum { NO, YES, AUTO };
static const char *const sums[] = {"no", "yes", "auto", NULL};

typedef struct {
    int64_t others, renormalize;
    double init_std;
} conf;

typedef struct {
    const conf *c;
    int32_t layer;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = conf_;
    *(router *)self_ = (router){c, dims->layer};
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

/* Returns the experts of each token by falling probability, [T,K]. A selection bias that a
 * controller requested is used in the same way as when core chooses. */
static mf_tensor *ordered(const router *self, mf_ctx *ctx, mf_graph *g, mf_tensor *p, int64_t K)
{
    char bias[64];
    mf_tensor *score = mf_stop_gradient(g, p);
    snprintf(bias, sizeof bias, "/layers.%d.moe.select_bias", (int)self->layer);
    if (mf->find(ctx, bias, 0)) score = mf_add(g, score, mf->use(ctx, g, bias));
    return mf_topk(g, score, K);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const conf *c = self->c;
    const int64_t E = in->experts, k = in->top_k, T = (int64_t)in->batch * in->seq;
    const int64_t n = c->others == 0 || c->others > E - k ? E - k : c->others, R = T * (k + n);
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->renormalize = c->renormalize == AUTO ? k > 1 : c->renormalize == YES;
    if (!mf->training(g) || n == 0) return mf->status(g); /* in this case core chooses */
    mf_tensor *p = out->prob = mf_softmax(g, out->logits);
    mf_tensor *expert = ordered(self, ctx, g, p, k + n), *taken = mf_take(g, p, expert);
    mf_tensor *chosen = mf_slice(g, taken, 1, 0, k), *rest = mf_slice(g, taken, 1, k, n);
    mf_tensor *silent[2] = {mf_affine(g, mf_stop_gradient(g, chosen), 0, 0),
                            mf_affine(g, mf_stop_gradient(g, rest), 0, 1)};
    if (out->renormalize) {
        mf_tensor *sum = mf_sum(g, chosen, 2u, true);
        chosen = mf_div(g, chosen, sum);
        rest = mf_div(g, rest, mf_stop_gradient(g, sum));
    }
    mf_tensor *gate[2] = {chosen, mf_sub(g, rest, mf_stop_gradient(g, rest))};
    out->expert = mf_reshape(g, expert, mf_shape1(R));
    out->gate = mf_reshape(g, mf_concat(g, 2, gate, 1), mf_shape1(R));
    out->silent = mf_reshape(g, mf_concat(g, 2, silent, 1), mf_shape1(R));
    out->own_top_k = (int32_t)(k + n);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, others, "0", 0, 4096, 0,
                  "experts that are computed beside the chosen ones, the next by p; 0: all"),
    MF_OPTION_ENUM(conf, renormalize, "auto", sums,
                   "gates of a token sum to 1; auto: if it has several experts"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "densemix", "1.0", "MIT",
                                  "top k that learns from the experts that it did not choose",
                                  options, conf, router, &vtable);
