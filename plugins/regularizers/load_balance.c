/* load_balance: the auxiliary loss of Switch (Fedus et al. 2022, eq. 4-6).
 *
 *     loss = E sum_i f_i P_i
 *
 * f_i: share of tokens that chose expert i (no gradient); P_i: mean probability of i. If both
 * are uniform, the loss is 1 (f summing to 1) or k (f summing to k). Neither counts padding.
 *
 * Conventions that differ between implementations are options: `f` = rows divides by T k, so
 * that f sums to 1; `f` = tokens divides by T, so that it sums to k. T k is the number of
 * chosen assignments, also where routers give tokens different numbers of experts. `count` =
 * admitted counts assignments after capacity, chosen before. `scope` = layer gives each layer
 * its own sum, averaged; global first averages f and P over layers. */
#include <moefw/moefw.h>

enum { ROWS, TOKENS };
static const char *const f_names[] = {"rows", "tokens", NULL};
enum { CHOSEN, ADMITTED };
static const char *const count_names[] = {"chosen", "admitted", NULL};
enum { LAYER, GLOBAL };
static const char *const scope_names[] = {"layer", "global", NULL};

typedef struct {
    int64_t f, count, scope;
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

/* mean over real tokens of prob [T,E] -> [E] */
static mf_tensor *mean_prob(mf_graph *g, const mf_routing *r)
{
    if (!r->mask) return mf_mean(g, r->prob, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    mf_tensor *sum = mf_sum(g, mf_mul(g, r->prob, m), 1u, false);
    return mf_div(g, sum, mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

/* f in shares of the chosen assignments: f / k. If the router chose the assignments itself,
 * tokens may have different numbers of them, and k is the mean over the batch. */
static mf_tensor *by_rows(mf_graph *g, const mf_routing *r, mf_tensor *f)
{
    if (!r->expert) return mf_scale(g, f, 1.0 / (double)r->top_k);
    mf_tensor *k = mf_sum(g, mf_stop_gradient(g, r->demand), MF_ALL, false);
    return mf_div(g, f, mf_clamp(g, k, 1e-20, 1e30));
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)ctx;
    const conf *c = ((regularizer *)self)->c;
    mf_tensor *total = NULL, *sum_f = NULL, *sum_p = NULL;
    int32_t used = 0;
    double experts = 0;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        /* without probabilities nothing can receive a gradient */
        if (!r->prob) continue;
        mf_tensor *f = mf_stop_gradient(g, c->count == ADMITTED ? r->load : r->demand);
        if (c->f == ROWS) f = by_rows(g, r, f);
        mf_tensor *p = mean_prob(g, r);
        experts = r->experts;
        used++;
        if (c->scope == GLOBAL) {
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
    } else if (c->scope == GLOBAL) {
        *ret_loss = mf_scale(g, mf_sum(g, mf_mul(g, sum_f, sum_p), MF_ALL, false),
                             experts / ((double)used * used));
    } else {
        *ret_loss = mf_scale(g, total, 1.0 / used);
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, f, "rows", f_names, "f sums to 1 (rows) or to k (tokens)"),
    MF_OPTION_ENUM(conf, count, "chosen", count_names, "rows counted before or after capacity"),
    MF_OPTION_ENUM(conf, scope, "layer", scope_names, "a sum for each layer, or one for all"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {sizeof(mf_regularizer), 0, init, NULL, loss, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "load_balance", "1.0", "MIT",
                                  "Switch's E sum f P: evens out the experts' loads", options,
                                  conf, regularizer, &vtable);
