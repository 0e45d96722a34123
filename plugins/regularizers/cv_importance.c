/* cv_importance: squared coefficient of variation of importance (Shazeer et al. 2017, eq. 6-7).
 *
 *     importance_e = sum over tokens of the gate of e;   loss = Var(importance) / mean^2
 *
 * of = gate sums the renormalised gates of the k most probable experts; of = prob sums all
 * probabilities. scope = sequence sums within each sequence and computes the variance over all
 * these sums (LaMoE's code); scope = batch sums over the whole batch (LaMoE's text). variance =
 * sample divides by n - 1, population by n. Sequences that consist of padding, which occur in
 * last batches, do not count. The loss is averaged over layers. */
#include <moefw/moefw.h>

enum { GATE, PROB };
static const char *const kinds[] = {"gate", "prob", NULL};
enum { BATCH, SEQUENCE };
static const char *const scopes[] = {"batch", "sequence", NULL};
enum { POPULATION, SAMPLE };
static const char *const variances[] = {"population", "sample", NULL};

typedef struct {
    int64_t of, scope, variance;
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

static int average(mf_graph *g, mf_tensor *total, int32_t used, mf_tensor **ret_loss)
{
    const float zero = 0;
    *ret_loss =
        used ? mf_scale(g, total, 1.0 / used) : mf->constant(g, MF_F32, mf_shape0(), &zero);
    return mf->status(g);
}

/* [T,E]: renormalised gates of the k most probable experts, 0 elsewhere */
static mf_tensor *gates(mf_graph *g, const mf_routing *r)
{
    mf_tensor *top = mf_topk(g, r->prob, r->top_k < r->experts ? r->top_k : r->experts);
    mf_tensor *p = mf_take(g, r->prob, top);
    p = mf_div(g, p, mf_affine(g, mf_sum(g, p, 2u, true), 1, 1e-20));
    return mf_put(g, p, top, r->experts);
}

/* Var(v) / mean(v)^2 of v [B,E]. real [B,1] is 1 for the sequences that count and 0 for the
 * others, where v must be 0; NULL: all sequences count. */
static mf_tensor *cv_squared(mf_graph *g, mf_tensor *v, mf_tensor *real, bool sample)
{
    const mf_shape s = mf->shape(v);
    const double n = (double)(s.dim[0] * s.dim[1]);
    if (!real) {
        mf_tensor *mean = mf_mean(g, v, MF_ALL, false);
        mf_tensor *square = mf_sum(g, mf_square(g, mf_sub(g, v, mean)), MF_ALL, false);
        return mf_div(g, mf_scale(g, square, 1 / (sample && n > 1 ? n - 1 : n)),
                      mf_affine(g, mf_square(g, mean), 1, 1e-10));
    }
    mf_tensor *count = mf_scale(g, mf_sum(g, real, MF_ALL, false), (double)s.dim[1]);
    mf_tensor *by = mf_clamp(g, sample ? mf_affine(g, count, 1, -1) : count, 1, 1e30);
    mf_tensor *mean = mf_div(g, mf_sum(g, v, MF_ALL, false), mf_clamp(g, count, 1, 1e30));
    mf_tensor *square = mf_mul(g, mf_square(g, mf_sub(g, v, mean)), real);
    return mf_div(g, mf_div(g, mf_sum(g, square, MF_ALL, false), by),
                  mf_affine(g, mf_square(g, mean), 1, 1e-10));
}

static int loss(void *self_, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)ctx;
    const regularizer *self = self_;
    const conf *c = self->c;
    mf_tensor *total = NULL;
    int32_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->prob) continue;
        const int64_t T = r->tokens, B = c->scope == SEQUENCE ? r->batch : 1;
        mf_tensor *v = c->of == GATE ? gates(g, r) : r->prob, *real = NULL;
        if (r->mask) v = mf_mul(g, v, mf_reshape(g, r->mask, mf_shape2(T, 1)));
        if (r->mask && B > 1) {
            mf_tensor *tokens = mf_reshape(g, r->mask, mf_shape2(B, T / B));
            real = mf_clamp(g, mf_sum(g, tokens, 2u, true), 0, 1);
        }
        v = mf_sum(g, mf_reshape(g, v, mf_shape3(B, T / B, r->experts)), 2u, false);
        mf_tensor *l = cv_squared(g, v, real, c->variance == SAMPLE);
        total = total ? mf_add(g, total, l) : l;
        used++;
    }
    return average(g, total, used, ret_loss);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, of, "gate", kinds, "sum gates of the chosen, or all probabilities"),
    MF_OPTION_ENUM(conf, scope, "batch", scopes, "sums over the batch or over each sequence"),
    MF_OPTION_ENUM(conf, variance, "sample", variances, "divide by n or by n - 1"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "cv_importance", "1.0", "MIT",
                                  "CV^2 of the gates' sums: evens out importance", options,
                                  conf, regularizer, &vtable);
