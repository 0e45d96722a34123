/* mutual_information: the negative mutual information of token and expert (Chen et al. 2023,
 * Mod-Squad, with tokens instead of tasks).
 *
 *     loss = mean over real tokens of H(P_t) - balance H(mean of P_t),   H(p) = -sum p ln p
 *
 * The first term makes each token's choice sharp, the second term keeps experts in use. For
 * balance = 1 the loss is at least -ln E. At the start it is a difference of two numbers
 * near ln E, so f32 keeps only few digits of it. The mean in the second term is over the
 * tokens of a micro-batch, so the loss depends on how a batch is divided. The losses of
 * layers are added. */
#include <moefw/moefw.h>

typedef struct {
    double balance;
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

static mf_tensor *entropy(mf_graph *g, mf_tensor *p)
{
    return mf_scale(g, mf_sum(g, mf_xlogx(g, p), 2u, true), -1);
}

/* mean over real tokens of v [T,n] -> [n] */
static mf_tensor *mean_of(mf_graph *g, const mf_routing *r, mf_tensor *v)
{
    if (!r->mask) return mf_mean(g, v, 1u, false);
    mf_tensor *sum =
        mf_sum(g, mf_mul(g, v, mf_reshape(g, r->mask, mf_shape2(r->tokens, 1))), 1u, false);
    return mf_div(g, sum, mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static mf_tensor *of_layer(const conf *c, mf_graph *g, const mf_routing *r)
{
    mf_tensor *each = mean_of(g, r, entropy(g, r->prob));
    mf_tensor *mean = mf_reshape(g, mean_of(g, r, r->prob), mf_shape2(1, r->experts));
    mf_tensor *whole = mf_reshape(g, entropy(g, mean), mf_shape1(1));
    return mf_reshape(g, mf_sub(g, each, mf_scale(g, whole, c->balance)), mf_shape0());
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)ctx;
    const float zero = 0;
    mf_tensor *total = mf->constant(g, MF_F32, mf_shape0(), &zero);
    for (int32_t i = 0; i < n; i++)
        if (routing[i]->prob)
            total = mf_add(g, total, of_layer(((regularizer *)self)->c, g, routing[i]));
    *ret_loss = total;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, balance, "1", 0, 1000, 0, "factor of the entropy of the mean"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "mutual_information", "1.0",
                                  "MIT", "sharp choices of tokens, and all experts in use",
                                  options, conf, regularizer, &vtable);
