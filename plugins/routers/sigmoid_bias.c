/* sigmoid_bias: DeepSeek-V3's router (2024, section 2.1.2, eq. 13-16).
 *
 *     s = sigmoid(W x), choose the k largest of s + b, gate = s / (sum of the chosen s) * scale
 *
 *     score = sqrt_softplus   s = sqrt(ln(1 + e^(W x))) (DeepSeek-V4 2026, with scale 1.5)
 *     score = softmax         s = softmax(W x) over all experts (ERNIE 4.5 2025)
 *
 * With sqrt_softplus, s is 1e-15 without a gradient for a logit below -69, where f32 has no
 * smaller root. The gate is s * scale with renormalize = no, and with renormalize = auto if
 * k = 1 (where s / s would always be 1).
 *
 * b is not a parameter: after each step b_e += rate * sign(mean load - load_e), which balances
 * loads without a gradient. With groups > 1 the experts form that many groups of neighbours. A
 * group's score is the sum of its two largest s + b, and experts are chosen only from the
 * topk_groups best groups. moe.renormalize has no effect. seq_aux_weight adds the small loss
 * within each sequence, averaged over the sequences with tokens (eq. 17-20; the paper uses
 * 1e-4). The loss counts the k largest s of each token (eq. 18). With seq_aux_count = chosen it
 * counts the chosen experts of the token, those with the largest s + b in the best groups.
 * Parameters: E d; b is saved with the model. */
#include <moefw/moefw.h>

enum { SIGMOID, SQRT_SOFTPLUS, SOFTMAX };
static const char *const scores[] = {"sigmoid", "sqrt_softplus", "softmax", NULL};
enum { NO, YES, AUTO };
static const char *const sums[] = {"no", "yes", "auto", NULL};
enum { SCORES, CHOSEN };
static const char *const counts[] = {"scores", "chosen", NULL};

typedef struct {
    int64_t groups, topk_groups, renormalize, seq_aux_count, score;
    double rate, scale, seq_aux_weight, init_std;
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
    if (dims->experts % c->groups != 0)
        return mf->fail(ctx, MF_ECONFIG, "groups = %d does not divide the %d experts",
                        (int)c->groups, (int)dims->experts);
    if (c->topk_groups > c->groups ||
        c->topk_groups * (dims->experts / c->groups) < dims->top_k)
        return mf->fail(
            ctx, MF_ECONFIG,
            "topk_groups = %d of %d groups with %d experts each cannot give %d experts",
            (int)c->topk_groups, (int)c->groups, (int)(dims->experts / c->groups),
            (int)dims->top_k);
    int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(c->init_std));
    return rc == MF_OK ? mf->buffer(ctx, "bias", mf_shape1(dims->experts), MF_ZEROS) : rc;
}

/* score [T,E], minus 10,000 for the experts of closed groups */
static mf_tensor *open_groups(const router *self, mf_graph *g, mf_tensor *score, int64_t T)
{
    const conf *c = self->c;
    const int64_t G = c->groups, n = self->experts / G;
    mf_tensor *rows = mf_reshape(g, score, mf_shape2(T * G, n));
    mf_tensor *best = mf_take(g, rows, mf_topk(g, rows, n < 2 ? n : 2));
    mf_tensor *group = mf_reshape(g, mf_sum(g, best, 2u, false), mf_shape2(T, G));
    mf_tensor *top = mf_topk(g, group, c->topk_groups);
    mf_tensor *ones = mf_affine(g, mf_take(g, group, top), 0, 1);
    mf_tensor *open = mf_reshape(g, mf_put(g, ones, top, G), mf_shape3(T, G, 1));
    mf_tensor *s = mf_reshape(g, score, mf_shape3(T, G, n));
    s = mf_add(g, s, mf_affine(g, open, 1e4, -1e4));
    return mf_reshape(g, s, mf_shape2(T, self->experts));
}

/* Returns the mean of sum_e f_e P_e over the sequences that contain tokens. For a sequence
 * with n tokens, f_e is E / (k n) times the number of choices of e, and P_e the mean
 * of s_e / sum s. */
static mf_tensor *sequence_loss(const router *self, mf_graph *g, const mf_router_in *in,
                                mf_tensor *prob, mf_tensor *score)
{
    const int64_t E = self->experts, B = in->batch, n = in->seq;
    mf_tensor *top = mf_topk(g, score, self->top_k);
    mf_tensor *hot = mf_put(g, mf_affine(g, mf_take(g, score, top), 0, 1), top, E);
    mf_tensor *count = NULL, *sequences = NULL;
    if (in->mask) {
        mf_tensor *m = mf_reshape(g, in->mask, mf_shape2(B * n, 1));
        hot = mf_mul(g, hot, m);
        prob = mf_mul(g, prob, m);
        count = mf_sum(g, mf_reshape(g, in->mask, mf_shape2(B, n)), 2u, true);
        sequences = mf_sum(g, mf_clamp(g, count, 0, 1), MF_ALL, false);
        count = mf_clamp(g, count, 1, 1e30); /* [B,1] number of real tokens */
    }
    mf_tensor *f = mf_sum(g, mf_reshape(g, hot, mf_shape3(B, n, E)), 2u, false);
    mf_tensor *p = mf_sum(g, mf_reshape(g, prob, mf_shape3(B, n, E)), 2u, false);
    f = count ? mf_div(g, f, count) : mf_scale(g, f, 1.0 / (double)n);
    p = count ? mf_div(g, p, count) : mf_scale(g, p, 1.0 / (double)n);
    mf_tensor *sum = mf_sum(g, mf_mul(g, mf_stop_gradient(g, f), p), MF_ALL, false);
    if (!sequences) return mf_scale(g, sum, (double)E / ((double)self->top_k * (double)B));
    sum = mf_scale(g, sum, (double)E / (double)self->top_k);
    return mf_div(g, sum, mf_clamp(g, sequences, 1, 1e30));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const conf *c = self->c;
    const int64_t T = (int64_t)in->batch * in->seq;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *s = c->score == SIGMOID ? mf_sigmoid(g, out->logits)
                   : c->score == SOFTMAX
                       ? mf_softmax(g, out->logits)
                       : mf_sqrt(g, mf_clamp(g, mf_softplus(g, out->logits), 1e-30, 1e30));
    /* Divided by its sum over all experts, s is a distribution. The gates of the chosen experts
     * do not change, because they are renormalised. */
    mf_tensor *share = mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20));
    const bool sums_to_1 = c->renormalize == AUTO ? self->top_k > 1 : c->renormalize == YES;
    out->prob = sums_to_1 ? share : s;
    out->score = mf_add(g, mf_stop_gradient(g, s), mf->use(ctx, g, "bias"));
    if (c->groups > 1) out->score = open_groups(self, g, out->score, T);
    out->renormalize = sums_to_1;
    out->gate_scale = c->scale;
    if (c->seq_aux_weight > 0) {
        out->loss_name[0] = "sequence_balance";
        mf_tensor *counted = c->seq_aux_count == CHOSEN ? out->score : mf_stop_gradient(g, s);
        out->loss[0] =
            mf_scale(g, sequence_loss(self, g, in, share, counted), c->seq_aux_weight);
        out->n_losses = 1;
    }
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    int64_t n = 0;
    float *b = mf->data(ctx, "bias", &n);
    for (int32_t l = 0; b && l < step->n_layers; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        if (s->layer != self->layer || s->experts != n) continue;
        for (int64_t e = 0; e < n; e++) {
            const double gap = 1.0 / (double)n - (double)s->demand[e];
            b[e] += (float)(self->c->rate * (gap > 0 ? 1 : gap < 0 ? -1 : 0));
        }
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, groups, "1", 1, 4096, 0, "groups that the experts lie in"),
    MF_OPTION_INT(conf, topk_groups, "1", 1, 4096, 0, "groups open to a token"),
    MF_OPTION_ENUM(conf, score, "sigmoid", scores,
                   "s: of DeepSeek-V3, of DeepSeek-V4, of ERNIE 4.5"),
    MF_OPTION_ENUM(conf, renormalize, "auto", sums,
                   "gates of a token sum to scale; auto: if it has several experts"),
    MF_OPTION_REAL(conf, rate, "0.001", 0, 1, MF_OPT_LIVE,
                   "size of one correction of the bias"),
    MF_OPTION_REAL(conf, scale, "1", 1e-3, 1e3, 0, "multiplies the gates (DeepSeek-V3: 2.5)"),
    MF_OPTION_REAL(conf, seq_aux_weight, "0", 0, 10, 0, "weight of the loss within sequences"),
    MF_OPTION_ENUM(conf, seq_aux_count, "scores", counts,
                   "what this loss counts: the k largest s (eq. 18), or the chosen experts"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), MF_ROUTER_STATS, init, NULL, route,
                                 after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "sigmoid_bias", "1.0", "MIT",
                                  "independent scores, balanced by a bias (DeepSeek-V3, V4)",
                                  options, conf, router, &vtable);
