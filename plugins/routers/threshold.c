/* threshold: Expert Threshold routing (2026, arXiv 2603.11535): each expert is open to all
 * tokens whose score exceeds a cutoff, so that on average it gets k / E of the tokens.
 *
 *     s = sigmoid(W x),   expert e is open to a token if s_e > c_e,   gate = s_e
 *     after step n:   m_e = alpha m_e + (1 - alpha) q_e,   c_e = m_e / (1 - alpha^n)
 *
 * q_e is the (1 - k / E) quantile of s_e over all tokens of the step. It is computed from a
 * histogram of `bins` bins between 0 and 1, as if scores were uniform within a bin. The
 * histogram is a tally, so the cutoffs do not depend on how the step was divided into
 * micro-batches. The released code averages the cutoffs of micro-batches instead.
 *
 * In the first `warmup` steps of training each expert chooses the floor(T k / E) tokens of the
 * micro-batch with the largest s_e (expert choice), at least one. Evaluation always uses the
 * cutoffs, which begin at .5. A token may have no expert, or several. With cutoffs the choice
 * depends on the token alone, so a decoder can use this router. An expert that is open to no
 * token gets no gradient until its cutoff has followed its scores. P of the record is s divided
 * by its sum over all experts; moe.renormalize has no effect. A capacity is computed from
 * top_k. Parameters: E d; m, c and n are saved with the model. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    int64_t bins, warmup;
    double alpha, init_std;
} conf;

typedef struct {
    const conf *c;
    int32_t experts, top_k;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = conf_;
    const mf_shape experts = mf_shape1(dims->experts);
    *(router *)self_ = (router){c, dims->experts, dims->top_k};
    int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(c->init_std));
    if (rc == MF_OK) rc = mf->buffer(ctx, "mean", experts, MF_ZEROS);
    if (rc == MF_OK) rc = mf->buffer(ctx, "cutoff", experts, MF_CONST(0.5));
    if (rc == MF_OK) rc = mf->buffer(ctx, "steps", mf_shape1(1), MF_ZEROS);
    return rc == MF_OK
               ? mf->tally(ctx, "scores", mf_shape2(dims->experts, c->bins), MF_TALLY_WHOLE)
               : rc;
}

/* Returns floor(n k / E), at least 1: the number of tokens that an expert chooses from n. */
static int64_t share(int64_t n, int64_t k, int64_t E)
{
    return n * k / E > 1 ? n * k / E : 1;
}

/* Returns [T,E], 1 where an expert chooses a token, else 0. With padding, choice j of an
 * expert is made if there are more than need[j] real tokens. */
static mf_tensor *by_experts(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_tensor *s)
{
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    const int64_t C = share(T, in->top_k, E);
    mf_tensor *wanted = mf_transpose(g, s, 1, 0, 0, 0); /* [E,T] */
    if (in->mask)
        wanted =
            mf_add(g, wanted, mf_affine(g, mf_reshape(g, in->mask, mf_shape2(1, T)), 2, -2));
    mf_tensor *token = mf_topk(g, wanted, C);
    mf_tensor *taken = mf_affine(g, mf_take(g, wanted, token), 0, 1); /* [E,C] of ones */
    if (in->mask) {
        float *need = malloc((size_t)C * sizeof *need);
        if (!need) {
            mf->fail(ctx, MF_ENOMEM, "no memory for the choices of %d tokens", (int)C);
            return NULL;
        }
        for (int64_t n = 1, j = 0; j < C; n++)
            for (; j < C && share(n, in->top_k, E) > j; j++)
                need[j] = (float)n - 0.5f;
        mf_tensor *least = mf->constant(g, MF_F32, mf_shape2(1, C), need);
        free(need);
        mf_tensor *real = mf_reshape(g, mf_sum(g, in->mask, MF_ALL, false), mf_shape2(1, 1));
        real = mf_broadcast(g, real, mf_shape2(1, C));
        taken = mf_mul(g, taken, mf_greater(g, real, least));
    }
    return mf_transpose(g, mf_put(g, taken, token, T), 1, 0, 0, 0);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    router *self = self_;
    const conf *c = self->c;
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    const int32_t one = 1;
    self->top_k = in->top_k;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *s = mf_sigmoid(g, out->logits), *still = mf_stop_gradient(g, s);
    mf_tensor *open = mf_greater(g, still, mf->use(ctx, g, "cutoff")); /* [T,E] 0 or 1 */
    if (mf->training(g) && c->warmup > 0) {
        const float last = (float)c->warmup - 0.5f;
        mf_tensor *late = mf_greater(g, mf->use(ctx, g, "steps"),
                                     mf->constant(g, MF_F32, mf_shape1(1), &last));
        mf_tensor *first = by_experts(ctx, g, in, still);
        open = mf_add(g, first, mf_mul(g, mf_sub(g, open, first), late));
    }
    /* (e + 1) open - 1: the expert, or -1 */
    mf_tensor *number = mf_affine(g, mf_cast(g, mf_arange(g, E), MF_F32), 1, 1);
    mf_tensor *expert = mf_cast(g, mf_mul(g, open, number), MF_I32);
    expert = mf_sub(g, expert, mf->constant(g, MF_I32, mf_shape1(1), &one));
    out->expert = mf_reshape(g, expert, mf_shape1(T * E));
    out->gate = mf_reshape(g, mf_mul(g, s, open), mf_shape1(T * E));
    out->own_top_k = (int32_t)E;
    out->renormalize = 0;
    out->prob = mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20));
    if (mf->training(g))
        mf->count(ctx, g, "scores", mf_score_bins(g, still, in->mask, NULL, c->bins, 0, 1));
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    const double alpha = self->c->alpha;
    const int64_t bins = self->c->bins;
    float *m = mf->data(ctx, "mean", NULL), *cutoff = mf->data(ctx, "cutoff", NULL);
    float *steps = mf->data(ctx, "steps", NULL);
    const double *count = mf->sum(ctx, "scores", NULL);
    if (!m || !cutoff || !steps || !count || step->skipped || step->step_tokens == 0)
        return MF_OK;
    *steps += 1;
    for (int32_t e = 0; e < self->experts; e++) {
        const double q = mf_bins_quantile(count + e * bins, (int32_t)bins, 0, 1,
                                          1 - (double)self->top_k / self->experts);
        m[e] = (float)(alpha * (double)m[e] + (1 - alpha) * q);
        cutoff[e] = (float)((double)m[e] / (1 - pow(alpha, (double)*steps)));
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, bins, "1000", 8, 8192, 0, "bins of the histogram of each expert"),
    MF_OPTION_INT(conf, warmup, "100", 0, 1000000000, 0,
                  "steps in which experts choose tokens; 0: none"),
    MF_OPTION_REAL(conf, alpha, "0.99", 0, 0.999999, 0,
                   "share of the mean of earlier steps that stays in each step"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {.size = sizeof(mf_router),
                                 .flags = MF_ROUTER_TRAIN_BATCH,
                                 .init = init,
                                 .route = route,
                                 .after_step = after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "threshold", "1.0", "MIT",
                                  "all experts whose score exceeds a cutoff that balances them",
                                  options, conf, router, &vtable);
