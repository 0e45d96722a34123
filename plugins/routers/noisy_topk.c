/* noisy_topk: a router with learned noise (Shazeer et al. 2017, eq. 3-5; LaMoE).
 *
 *     logits = Wg x + bg + noise N(0,1) softplus(Wn x + bn), gates = softmax over the k largest
 *
 * Core's softmax over all experts, renormalised over the k chosen, equals the softmax over the
 * chosen logits. So with k > 1 a token's gates always sum to 1, and moe.renormalize has no
 * effect. With k = 1 that softmax would always be 1, so the gate is the expert's share of the
 * softmax over all experts, unless moe.renormalize = yes. Noise is drawn in training only,
 * unless noise_eval = yes (as in LaMoE's code).
 *
 * The router has two losses, off by default: the squared coefficients of variation of the
 * gates' sums (importance_weight; LaMoE uses 1e-2) and of the expected loads (load_weight;
 * Shazeer et al., appendix A). Variances divide by n - 1. scope decides whether importance is
 * summed over the batch, or over each sequence that contains tokens. Parameters: 2 d E (+ 2 E
 * with bias; d 512, 8 experts: 8,208). */
#include <moefw/moefw.h>
#include <math.h>

enum { BATCH, SEQUENCE };
static const char *const scopes[] = {"batch", "sequence", NULL};
enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t bias, noise_eval, scope, init;
    double init_std, noise, importance_weight, load_weight;
} conf;

typedef struct {
    const conf *c;
    int32_t experts, top_k;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->experts = dims->experts;
    self->top_k = dims->top_k;
    const mf_shape w = mf_shape2(dims->experts, dims->dim), b = mf_shape1(dims->experts);
    const bool uniform = c->init == UNIFORM;
    const double bound = 1 / sqrt((double)dims->dim);
    const mf_init weight = uniform ? mf_init_of(MF_INIT_KAIMING, 1, 0) : MF_NORMAL(c->init_std);
    const mf_init bias =
        uniform ? mf_init_of(MF_INIT_UNIFORM, bound, MF_PARAM_NO_DECAY) : MF_ZEROS;
    int rc = mf->param(ctx, "weight", w, weight);
    if (rc == MF_OK) rc = mf->param(ctx, "noise.weight", w, weight);
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "bias", b, bias);
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "noise.bias", b, bias);
    return rc;
}

/* Var(v) / mean(v)^2 over all elements, with Bessel's correction as in LaMoE's code. */
static mf_tensor *cv_squared(mf_graph *g, mf_tensor *v, int64_t n)
{
    mf_tensor *mean = mf_mean(g, v, MF_ALL, false);
    mf_tensor *var = mf_sum(g, mf_square(g, mf_sub(g, v, mean)), MF_ALL, false);
    var = mf_scale(g, var, 1.0 / (double)(n > 1 ? n - 1 : 1));
    return mf_div(g, var, mf_affine(g, mf_square(g, mean), 1, 1e-10));
}

/* Like cv_squared, for v [B,E], but only sequences with real [B,1] = 1 count; the other
 * sequences must have v = 0. */
static mf_tensor *cv_squared_of(mf_graph *g, mf_tensor *v, mf_tensor *real, int64_t experts)
{
    mf_tensor *n = mf_scale(g, mf_sum(g, real, MF_ALL, false), (double)experts);
    mf_tensor *mean = mf_div(g, mf_sum(g, v, MF_ALL, false), mf_clamp(g, n, 1, 1e30));
    mf_tensor *var = mf_mul(g, mf_square(g, mf_sub(g, v, mean)), real);
    var =
        mf_div(g, mf_sum(g, var, MF_ALL, false), mf_clamp(g, mf_affine(g, n, 1, -1), 1, 1e30));
    return mf_div(g, var, mf_affine(g, mf_square(g, mean), 1, 1e-10));
}

static mf_tensor *masked(mf_graph *g, const mf_router_in *in, mf_tensor *v)
{
    if (!in->mask) return v;
    return mf_mul(g, v, mf_reshape(g, in->mask, mf_shape2((int64_t)in->batch * in->seq, 1)));
}

static mf_tensor *importance_loss(const router *self, mf_graph *g, const mf_router_in *in,
                                  mf_tensor *logits)
{
    const int64_t E = self->experts;
    mf_tensor *top = mf_topk(g, logits, self->top_k);
    /* With one expert per token the softmax of its logit alone would always be 1. */
    mf_tensor *chosen = self->top_k > 1 ? mf_softmax(g, mf_take(g, logits, top))
                                        : mf_take(g, mf_softmax(g, logits), top);
    mf_tensor *gates = mf_put(g, chosen, top, E); /* [T,E] */
    gates = masked(g, in, gates);
    if (self->c->scope == BATCH) return cv_squared(g, mf_sum(g, gates, 1u, false), E);
    gates = mf_sum(g, mf_reshape(g, gates, mf_shape3(in->batch, in->seq, E)), 2u, false);
    if (!in->mask) return cv_squared(g, gates, in->batch * E);
    mf_tensor *real =
        mf_sum(g, mf_reshape(g, in->mask, mf_shape2(in->batch, in->seq)), 2u, true);
    return cv_squared_of(g, gates, mf_clamp(g, real, 0, 1), E);
}

/* Returns CV^2 of the expected loads. The load of expert e is the sum over tokens of P(e stays
 * among the k largest if its noise is drawn again). */
static mf_tensor *load_loss(const router *self, mf_graph *g, const mf_router_in *in,
                            mf_tensor *clean, mf_tensor *noisy, mf_tensor *spread)
{
    const int64_t k = self->top_k;
    /* [T,k+1], each row in decreasing order */
    mf_tensor *best = mf_take(g, noisy, mf_topk(g, noisy, k + 1));
    mf_tensor *last_in = mf_slice(g, best, 1, k - 1, 1),
              *first_out = mf_slice(g, best, 1, k, 1);
    mf_tensor *inside = mf_greater(g, noisy, first_out);
    /* The k-th largest logit among the other experts. For an expert among the k largest this is
     * the (k+1)-th of all logits, otherwise the k-th. */
    mf_tensor *bar = mf_add(g, mf_mul(g, inside, first_out),
                            mf_mul(g, mf_affine(g, inside, -1, 1), last_in));
    mf_tensor *p = mf_normal_cdf(g, mf_div(g, mf_sub(g, clean, bar), spread));
    return cv_squared(g, mf_sum(g, masked(g, in, p), 1u, false), self->experts);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const conf *c = self->c;
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *b = c->bias ? mf->use(ctx, g, "bias") : NULL;
    mf_tensor *bn = c->bias ? mf->use(ctx, g, "noise.bias") : NULL;
    mf_tensor *clean = mf_linear(g, in->x, mf->use(ctx, g, "weight"), b), *noisy = clean;
    mf_tensor *spread = NULL;
    if (mf->training(g) || c->noise_eval) {
        spread = mf_softplus(g, mf_linear(g, in->x, mf->use(ctx, g, "noise.weight"), bn));
        spread = mf_mul(g, spread, mf->live(ctx, g, "noise"));
        mf_tensor *noise = mf_gaussian(g, mf_shape2(T, self->experts));
        noisy = mf_add(g, clean, mf_mul(g, noise, spread));
    }
    out->logits = noisy;
    if (self->top_k > 1) out->renormalize = 1;
    if (c->importance_weight > 0) {
        out->loss_name[out->n_losses] = "importance_cv2";
        out->loss[out->n_losses++] =
            mf_scale(g, importance_loss(self, g, in, noisy), c->importance_weight);
    }
    if (c->load_weight > 0 && spread && self->top_k < self->experts) {
        spread = mf_affine(g, spread, 1, 1e-10);
        out->loss_name[out->n_losses] = "load_cv2";
        out->loss[out->n_losses++] =
            mf_scale(g, load_loss(self, g, in, clean, noisy, spread), c->load_weight);
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_BOOL(conf, bias, "yes", 0, "biases of logits and of noise"),
    MF_OPTION_BOOL(conf, noise_eval, "no", 0, "draw noise in evaluation too"),
    MF_OPTION_ENUM(conf, scope, "batch", scopes, "sums of importance: over batch or sequence"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, noise, "1", 0, 100, MF_OPT_LIVE, "multiplies the noise; 0: none"),
    MF_OPTION_REAL(conf, importance_weight, "0", 0, 100, 0, "weight of CV^2 of importance"),
    MF_OPTION_REAL(conf, load_weight, "0", 0, 100, 0, "weight of CV^2 of the expected load"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "noisy_topk", "1.0", "MIT",
                                  "noise of learned size on the logits in training", options,
                                  conf, router, &vtable);
