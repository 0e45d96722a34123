/* grove: experts in groups; the experts of a group share a small expert (Wu et al. 2025, Grove
 * MoE; inclusionAI/GroveMoE as implemented in mlx-lm).
 *
 *     y = sum_e rho_e E_e(x) + scale sum_g (sum of rho_e, e in group g) A_g(x)
 *     E and A: W2 (silu(W1 x) * W3 x), A of width adjugate_hidden
 *
 * rho are the router's gates. A group has `group` neighbouring experts and one adjugate expert
 * A. So an expert returns E_e(x) + scale A_g(x), and the gates of one group add up. A is
 * computed for each assignment, as in the mlx-lm code, and not once for a token and a group;
 * the result is the same. The published model chooses experts by sigmoid(z) and computes gates
 * from softmax(z), which has the same order.
 *
 * Parameters of an expert: 3 d h + 3 d adjugate_hidden / group. */
#include <moefw/moefw.h>
#include <math.h>

typedef struct {
    int64_t hidden, adjugate_hidden, group;
    double scale, init_std;
} conf;

typedef struct {
    const conf *c;
} expert;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((expert *)self_)->c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 4 * d,
                  a = c->adjugate_hidden, G = E / c->group;
    /* Residual branches start smaller in deeper models (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    const uint32_t flags = MF_PARAM_BY_EXPERT;
    const mf_init in = mf_init_of(MF_INIT_NORMAL, c->init_std, flags | MF_PARAM_HALVES),
                  out = mf_init_of(MF_INIT_NORMAL, out_std, flags);
    if (G * c->group != E)
        return mf->fail(ctx, MF_ECONFIG, "group = %d does not divide the %d experts",
                        (int)c->group, (int)E);
    int rc = mf->param(ctx, "w13", mf_shape3(E, 2 * h, d), in);
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape3(E, d, h), out);
    if (rc == MF_OK) rc = mf->param(ctx, "adjugate.w13", mf_shape3(G, 2 * a, d), in);
    if (rc == MF_OK) rc = mf->param(ctx, "adjugate.w2", mf_shape3(G, d, a), out);
    return rc;
}

static mf_tensor *swiglu(mf_ctx *ctx, mf_graph *g, mf_tensor *x, mf_tensor *offset,
                         const char *w13, const char *w2)
{
    mf_tensor *h = mf_grouped_linear(g, x, mf->use(ctx, g, w13), offset, NULL);
    return mf_grouped_linear(g, mf_swiglu(g, h, NULL), mf->use(ctx, g, w2), offset, NULL);
}

static int forward(void *self_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const conf *c = ((const expert *)self_)->c;
    const int64_t n = c->group, G = in->experts / n;
    /* The rows of a group's experts follow one another, so every n-th offset is the start of
     * a group. */
    mf_tensor *both[2] = {
        mf_reshape(
            g,
            mf_slice(g, mf_reshape(g, mf_slice(g, in->offset, 0, 0, G * n), mf_shape2(G, n)), 1,
                     0, 1),
            mf_shape1(G)),
        mf_slice(g, in->offset, 0, G * n, 1)};
    mf_tensor *groups = mf_concat(g, 2, both, 0);
    mf_tensor *y = swiglu(ctx, g, in->x, in->offset, "w13", "w2");
    mf_tensor *a = swiglu(ctx, g, in->x, groups, "adjugate.w13", "adjugate.w2");
    *ret_y = mf_add(g, y, mf_scale(g, a, c->scale));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_INT(conf, group, "1", 1, 4096, 0, "experts of a group (Grove MoE: 2)"),
    MF_OPTION_INT(conf, adjugate_hidden, "128", 1, 1048576, 0,
                  "hidden width of adjugate experts"),
    MF_OPTION_REAL(conf, scale, "0.05", 0, 100, 0, "factor of adjugate experts"),
    MF_OPTION_REAL(conf, init_std, "0.02", 1e-6, 10, 0,
                   "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "grove", "1.0", "MIT",
                                  "experts in groups with a small common one (Grove MoE)",
                                  options, conf, expert, &vtable);
