/* load_balance: the auxiliary loss of Switch (Fedus et al. 2022, eq. 4-6).
 *
 *     loss = E sum_i f_i P_i
 *
 * f_i: share of tokens that chose expert i (no gradient); P_i: mean probability of i. If both
 * are uniform, the loss is 1 (if f sums to 1) or k (if f sums to k). Neither counts padding.
 *
 * Conventions that differ between implementations are options. `f` = rows divides by T k, so f
 * sums to 1; `f` = tokens divides by T, so f sums to k. T k is the number of assignments, also
 * if a router assigns different numbers of experts to tokens. `count` = admitted counts
 * assignments after capacity, chosen before it. `layers` = each computes one sum per layer and
 * averages the sums; pooled first averages f and P over layers. With groups = n the experts
 * form n groups of neighbours, whose f and P are summed, as DeepSeek-V2 balances devices.
 *
 * `scope` is the range in which loads should be even. micro: in each micro-batch; the loss then
 * depends on how a step is divided. sequence: in each sequence, averaged over sequences with
 * tokens (DeepSeek-V3 2024, eq. 17-20). step: f comes from the whole previous step, and is
 * uniform at first: f <- memory f + (1 - memory) f of the step. layer means micro, and global
 * means micro with layers = pooled. */
#include <moefw/moefw.h>

enum { ROWS, TOKENS };
static const char *const f_names[] = {"rows", "tokens", NULL};
enum { CHOSEN, ADMITTED };
static const char *const count_names[] = {"chosen", "admitted", NULL};
enum { LAYER, GLOBAL, MICRO, SEQUENCE, STEP };
static const char *const scope_names[] = {"layer", "global", "micro", "sequence", "step", NULL};
enum { EACH, POOLED };
static const char *const layers_names[] = {"each", "pooled", NULL};

typedef struct {
    int64_t f, count, scope, layers, groups;
    double memory;
} conf;

typedef struct {
    const conf *c;
    int32_t layers, experts;
    bool pooled;
} regularizer;

/* Checks the number of experts of each layer. */
static int judge(const regularizer *self, mf_ctx *ctx, const mf_dims *dims)
{
    const conf *c = self->c;
    for (int32_t l = 0; l < dims->n_layers; l++) {
        mf_dims d = {.size = sizeof d};
        if (mf->layer_dims(ctx, l, &d) != MF_OK) continue;
        if (c->groups > 0 && d.experts % c->groups != 0)
            return mf->fail(ctx, MF_ECONFIG, "groups = %d does not divide the %d experts",
                            (int)c->groups, (int)d.experts);
        const bool other = d.experts != dims->experts || d.top_k != dims->top_k;
        if (other && (self->pooled || c->scope == STEP))
            return mf->fail(ctx, MF_ECONFIG,
                            "%s: expected layers with equally many experts and equal top_k, "
                            "found %d and %d in block %d",
                            c->scope == STEP ? "scope = step" : "one sum for all layers",
                            (int)d.experts, (int)d.top_k, (int)l);
    }
    return MF_OK;
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    regularizer *self = self_;
    const conf *c = conf_;
    *self = (regularizer){c, dims->moe_layers, dims->experts,
                          c->scope == GLOBAL || c->layers == POOLED};
    int rc = judge(self, ctx, dims);
    if (rc != MF_OK) return rc;
    if (c->scope == SEQUENCE && self->pooled)
        return mf->fail(ctx, MF_ECONFIG, "scope = sequence: expected layers = each");
    if (c->scope != STEP || dims->moe_layers == 0) return MF_OK;
    const mf_shape shape = mf_shape2(dims->moe_layers, dims->experts);
    const double share = (c->f == ROWS ? 1.0 : dims->top_k) / dims->experts;
    rc = mf->buffer(ctx, "f", shape, MF_CONST(share));
    return rc == MF_OK ? mf->tally(ctx, "count", shape, MF_TALLY_WHOLE) : rc;
}

/* x [n,E] summed over groups of neighbours: [n,groups] */
static mf_tensor *grouped(const regularizer *self, mf_graph *g, mf_tensor *x)
{
    const int64_t groups = self->c->groups, n = mf->shape(x).dim[0], E = self->experts;
    if (groups == 0) return x;
    return mf_sum(g, mf_reshape(g, x, mf_shape3(n, groups, E / groups)), 4u, false);
}

/* mean over real tokens of prob [T,E] -> [E] */
static mf_tensor *mean_prob(mf_graph *g, const mf_routing *r)
{
    if (!r->mask) return mf_mean(g, r->prob, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    mf_tensor *sum = mf_sum(g, mf_mul(g, r->prob, m), 1u, false);
    return mf_div(g, sum, mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

/* f in shares of the chosen assignments: f / k. If the router chose the assignments itself,
 * tokens may have different numbers of assignments, and k is the mean over the batch. */
static mf_tensor *by_rows(mf_graph *g, const mf_routing *r, mf_tensor *f)
{
    if (!r->expert) return mf_scale(g, f, 1.0 / (double)r->top_k);
    mf_tensor *k = mf_sum(g, mf_stop_gradient(g, r->demand), MF_ALL, false);
    return mf_div(g, f, mf_clamp(g, k, 1e-20, 1e30));
}

/* Assignments of each token to each expert, 0 or 1: [T,E] */
static mf_tensor *assignments(mf_graph *g, const mf_routing *r, mf_tensor *of)
{
    mf_tensor *hot = mf_one_hot(g, of, r->experts); /* [R,E] */
    if (r->token) return mf_scatter_rows(g, hot, r->token, r->tokens);
    const int64_t k = r->rows / r->tokens;
    if (k == 1) return hot;
    return mf_sum(g, mf_reshape(g, hot, mf_shape3(r->tokens, k, r->experts)), 2u, false);
}

/* Returns the mean of E sum_e f_e P_e over the sequences that contain tokens. */
static mf_tensor *of_sequences(const regularizer *self, mf_graph *g, const mf_routing *r)
{
    const conf *c = self->c;
    const int64_t B = r->batch, n = r->seq, E = r->experts;
    mf_tensor *a = assignments(g, r, c->count == ADMITTED ? r->admitted : r->chosen);
    mf_tensor *p = r->prob, *tokens = NULL, *sequences = NULL;
    if (r->mask) {
        p = mf_mul(g, p, mf_reshape(g, r->mask, mf_shape2(r->tokens, 1)));
        tokens = mf_sum(g, mf_reshape(g, r->mask, mf_shape2(B, n)), 2u, true);
        sequences = mf_sum(g, mf_clamp(g, tokens, 0, 1), MF_ALL, false);
        tokens = mf_clamp(g, tokens, 1, 1e30); /* [B,1] */
    }
    a = mf_sum(g, mf_reshape(g, a, mf_shape3(B, n, E)), 2u, false);
    p = mf_sum(g, mf_reshape(g, p, mf_shape3(B, n, E)), 2u, false);
    p = tokens ? mf_div(g, p, tokens) : mf_scale(g, p, 1.0 / (double)n);
    if (c->f == ROWS)
        a = mf_div(g, a, mf_clamp(g, mf_sum(g, a, 2u, true), 1, 1e30));
    else
        a = tokens ? mf_div(g, a, tokens) : mf_scale(g, a, 1.0 / (double)n);
    a = grouped(self, g, mf_stop_gradient(g, a));
    mf_tensor *sum = mf_sum(g, mf_mul(g, a, grouped(self, g, p)), MF_ALL, false);
    sum = mf_scale(g, sum, (double)mf->shape(a).dim[1]);
    return sequences ? mf_div(g, sum, mf_clamp(g, sequences, 1, 1e30))
                     : mf_scale(g, sum, 1.0 / (double)B);
}

/* Returns f [E] of layer i, either of the micro-batch or of the previous step. */
static mf_tensor *loads(const regularizer *self, mf_ctx *ctx, mf_graph *g, const mf_routing *r,
                        int32_t i)
{
    const conf *c = self->c;
    if (c->scope == STEP)
        return mf_reshape(g, mf_slice(g, mf->use(ctx, g, "f"), 0, i, 1),
                          mf_shape1(self->experts));
    mf_tensor *f = mf_stop_gradient(g, c->count == ADMITTED ? r->load : r->demand);
    return c->f == ROWS ? by_rows(g, r, f) : f;
}

/* Counts the assignments of all layers for the next step. */
static void count(const regularizer *self, mf_ctx *ctx, mf_graph *g,
                  const mf_routing *const *routing, int32_t n)
{
    mf_tensor *all = NULL;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        mf_tensor *of = self->c->count == ADMITTED ? r->admitted : r->chosen;
        mf_tensor *one =
            mf_reshape(g, mf_bincount(g, of, NULL, self->experts), mf_shape2(1, self->experts));
        mf_tensor *both[2] = {all, one};
        all = all ? mf_concat(g, 2, both, 0) : one;
    }
    if (all) mf->count(ctx, g, "count", all);
}

static int loss(void *self_, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    const regularizer *self = self_;
    const conf *c = self->c;
    mf_tensor *total = NULL, *sum_f = NULL, *sum_p = NULL;
    int32_t used = 0;
    double experts = 0;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        /* without probabilities nothing can receive a gradient */
        if (!r->prob) continue;
        used++;
        if (c->scope == SEQUENCE) {
            mf_tensor *l = of_sequences(self, g, r);
            total = total ? mf_add(g, total, l) : l;
            continue;
        }
        mf_tensor *f = loads(self, ctx, g, r, i), *p = mean_prob(g, r);
        experts = r->experts;
        if (c->groups > 0) {
            experts = (double)c->groups;
            f = grouped(self, g, mf_reshape(g, f, mf_shape2(1, r->experts)));
            p = grouped(self, g, mf_reshape(g, p, mf_shape2(1, r->experts)));
        }
        if (self->pooled) {
            sum_f = sum_f ? mf_add(g, sum_f, f) : f;
            sum_p = sum_p ? mf_add(g, sum_p, p) : p;
        } else {
            mf_tensor *l = mf_scale(g, mf_sum(g, mf_mul(g, f, p), MF_ALL, false), experts);
            total = total ? mf_add(g, total, l) : l;
        }
    }
    if (!used) {
        const float zero = 0;
        *ret_loss = mf->constant(g, MF_F32, mf_shape0(), &zero);
    } else if (self->pooled) {
        *ret_loss = mf_scale(g, mf_sum(g, mf_mul(g, sum_f, sum_p), MF_ALL, false),
                             experts / ((double)used * used));
    } else {
        *ret_loss = mf_scale(g, total, 1.0 / used);
    }
    if (c->scope == STEP) count(self, ctx, g, routing, n);
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const regularizer *self = self_;
    const conf *c = self->c;
    if (c->scope != STEP || step->skipped || step->step_tokens == 0 || self->layers == 0)
        return MF_OK;
    float *f = mf->data(ctx, "f", NULL);
    const double *number = mf->sum(ctx, "count", NULL);
    for (int32_t i = 0; i < self->layers; i++, f += self->experts, number += self->experts) {
        double all = 0;
        for (int32_t e = 0; e < self->experts; e++)
            all += number[e];
        if (c->f == TOKENS) all = (double)step->step_tokens;
        for (int32_t e = 0; e < self->experts && all > 0; e++)
            f[e] = (float)(c->memory * (double)f[e] + (1 - c->memory) * number[e] / all);
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, f, "rows", f_names, "f sums to 1 (rows) or to k (tokens)"),
    MF_OPTION_ENUM(conf, count, "chosen", count_names, "rows counted before or after capacity"),
    MF_OPTION_ENUM(conf, scope, "layer", scope_names,
                   "even in each micro-batch (layer, micro), sequence, or step"),
    MF_OPTION_ENUM(conf, layers, "each", layers_names, "a sum for each layer, or one for all"),
    MF_OPTION_INT(conf, groups, "0", 0, 4096, 0,
                  "groups whose loads are to be even; 0: experts"),
    MF_OPTION_REAL(conf, memory, "0", 0, 1, 0, "scope = step: part of f that stays in a step"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_UNEQUAL,
                                      .init = init,
                                      .loss = loss,
                                      .after_step = after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "load_balance", "1.0", "MIT",
                                  "Switch's E sum f P: evens out the experts' loads", options,
                                  conf, regularizer, &vtable);
