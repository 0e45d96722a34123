/* importance2_load: the auxiliary loss that produces the values reported for DBGW (arXiv
 * 2506.16419, eq. 16 and 18).
 *
 *     loss = E sum_e g_e^2 l_e
 *
 * g_e is the mean probability of expert e over real tokens; l_e is its share of the chosen
 * assignments (the l sum to 1; no gradient). If both are equal for all experts, the loss is 1 /
 * E: 0.00125 for E = 8 and weight 0.01, the value in the paper's table. The paper calls this
 * Switch's loss; Switch's loss is E sum f P, the plugin load_balance. With load = tokens the l
 * sum to k, as in eq. 15. The loss is averaged over layers. */
#include <moefw/moefw.h>

enum { ROWS, TOKENS };
static const char *const loads[] = {"rows", "tokens", NULL};

typedef struct {
    int64_t load;
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

/* mean over real tokens of v [T,E] -> [E] */
static mf_tensor *token_mean(mf_graph *g, const mf_routing *r, mf_tensor *v)
{
    if (!r->mask) return mf_mean(g, v, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    mf_tensor *sum = mf_sum(g, mf_mul(g, v, m), 1u, false);
    return mf_div(g, sum, mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static int average(mf_graph *g, mf_tensor *total, int32_t used, mf_tensor **ret_loss)
{
    const float zero = 0;
    *ret_loss =
        used ? mf_scale(g, total, 1.0 / used) : mf->constant(g, MF_F32, mf_shape0(), &zero);
    return mf->status(g);
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)ctx;
    const conf *c = ((regularizer *)self)->c;
    mf_tensor *total = NULL;
    int32_t used = 0;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->prob) continue;
        mf_tensor *l = mf_stop_gradient(g, r->demand);
        /* Shares are used, because the number of assignments per token varies with
         * the router. */
        if (c->load == ROWS)
            l = mf_div(g, l, mf_clamp(g, mf_sum(g, l, MF_ALL, false), 1e-20, 1e30));
        mf_tensor *importance = mf_square(g, token_mean(g, r, r->prob));
        mf_tensor *sum = mf_sum(g, mf_mul(g, importance, l), MF_ALL, false);
        sum = mf_scale(g, sum, r->experts);
        total = total ? mf_add(g, total, sum) : sum;
        used++;
    }
    return average(g, total, used, ret_loss);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, load, "rows", loads, "l sums to 1 (rows) or to k (tokens)"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "importance2_load", "1.0", "MIT",
                   "E sum of importance^2 load", options, conf, regularizer, &vtable);
