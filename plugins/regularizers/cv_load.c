/* cv_load: squared coefficient of variation of a smooth load (after Shazeer et al. 2017,
 * appendix A).
 *
 *     load_e = sum over tokens of sigmoid((l_e - b_e) / width);   loss = Var(load) / mean^2
 *
 * Var divides by the number of experts. l is the router's logits, and b_e is the k-th largest
 * logit of the token among the other experts, so l_e > b_e exactly when e is chosen. The
 * original smooths by the router's own noise; it is part of the plugin noisy_topk
 * (load_weight). This plugin works with any router that has logits, and smooths by a logistic
 * function of the given width. The loss is averaged over layers. */
#include <moefw/moefw.h>

typedef struct {
    double width;
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

static mf_tensor *smooth_load(const conf *c, mf_graph *g, const mf_routing *r)
{
    const int64_t k = r->top_k;
    /* [T,k+1], each row in decreasing order */
    mf_tensor *best = mf_take(g, r->logits, mf_topk(g, r->logits, k + 1));
    mf_tensor *last_in = mf_slice(g, best, 1, k - 1, 1),
              *first_out = mf_slice(g, best, 1, k, 1);
    mf_tensor *inside = mf_greater(g, r->logits, first_out);
    mf_tensor *bar = mf_add(g, mf_mul(g, inside, first_out),
                            mf_mul(g, mf_affine(g, inside, -1, 1), last_in));
    mf_tensor *p = mf_sigmoid(g, mf_scale(g, mf_sub(g, r->logits, bar), 1 / c->width));
    if (r->mask) p = mf_mul(g, p, mf_reshape(g, r->mask, mf_shape2(r->tokens, 1)));
    return mf_sum(g, p, 1u, false); /* [E] */
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
        if (!r->logits || r->top_k >= r->experts || r->top_k < 1) continue;
        mf_tensor *load = smooth_load(c, g, r), *mean = mf_mean(g, load, MF_ALL, false);
        mf_tensor *var = mf_mean(g, mf_square(g, mf_sub(g, load, mean)), MF_ALL, false);
        mf_tensor *l = mf_div(g, var, mf_affine(g, mf_square(g, mean), 1, 1e-10));
        total = total ? mf_add(g, total, l) : l;
        used++;
    }
    return average(g, total, used, ret_loss);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, width, "0.1", 1e-4, 1e3, 0, "width of the smoothed step, in logits"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "cv_load", "1.0", "MIT",
                                  "CV^2 of a smooth count of chosen tokens", options, conf,
                                  regularizer, &vtable);
