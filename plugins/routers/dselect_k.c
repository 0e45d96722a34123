/* dselect_k: k selectors, each of which learns the binary number of an expert (Hazimeh et al.
 * 2021, DSelect-k; as in google-research/dselect_k_moe).
 *
 *     S(t) = 0 below -gamma/2, 1 above gamma/2, else -2 t^3 / gamma^3 + 3 t / (2 gamma) + 1/2
 *     t [k,m] = Z x + z,  m = number of bits of E - 1;  u [k] = softmax(U x + b)
 *     r_ie = S(t_ij) of all bits j that are 1 in e, times 1 - S(t_ij) of the others
 *     gate_e = sum over selectors i of u_i r_ie      (the first bit is the highest)
 *
 * When all S are 0 or 1, a token has at most k experts. Before that it has more, up to all
 * experts. rows = all computes every expert with a gate above 0, as published; rows = top_k
 * computes only the k experts with the largest gates, and does not change these gates. Z and z
 * begin within gamma / 100 of 0, so r begins even.
 *
 * If E is no power of 2, selectors may choose numbers without an expert. reach_weight times the
 * mean over tokens of sum_i 1 / (sum_e r_ie) is a loss against such numbers. entropy_weight
 * times the mean over tokens of the entropies of r_i is a loss that leads to a decision; the
 * released code sums over the batch instead. Parameters: k (m + 1) (d + 1), or m (d + 1) if k
 * is 1. */
#include <moefw/moefw.h>
#include <stdlib.h>

enum { ALL, TOP_K };
static const char *const rows_of[] = {"all", "top_k", NULL};

typedef struct {
    int64_t rows;
    double gamma, entropy_weight, reach_weight;
} conf;

typedef struct {
    const conf *c;
    int32_t experts, selectors, bits;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = conf_;
    *self = (router){.c = c, .experts = dims->experts, .selectors = dims->top_k};
    while ((int64_t)1 << self->bits < dims->experts)
        self->bits++;
    const int64_t n = self->selectors, nm = n * self->bits;
    const mf_init bit = mf_init_of(MF_INIT_UNIFORM, c->gamma / 100, 0),
                  weight = mf_init_of(MF_INIT_UNIFORM, 0.05, 0);
    int rc = n > 1 ? mf->param(ctx, "selector.weight", mf_shape2(n, dims->dim), weight) : MF_OK;
    if (rc == MF_OK && n > 1) rc = mf->param(ctx, "selector.bias", mf_shape1(n), weight);
    if (rc == MF_OK && nm > 0) rc = mf->param(ctx, "bit.weight", mf_shape2(nm, dims->dim), bit);
    if (rc == MF_OK && nm > 0) rc = mf->param(ctx, "bit.bias", mf_shape1(nm), bit);
    return rc;
}

static mf_tensor *smooth_step(mf_graph *g, mf_tensor *t, double gamma)
{
    mf_tensor *v =
        /* The function is exactly 0 and 1 at its ends. */
        mf_clamp(g, mf_scale(g, t, 2 / gamma), -1, 1);
    return mf_affine(g, mf_mul(g, v, mf_affine(g, mf_square(g, v), -0.25, 0.75)), 1, 0.5);
}

/* r [T,n,E] */
static mf_tensor *selected(const router *self, mf_ctx *ctx, mf_graph *g, mf_tensor *x,
                           int64_t T)
{
    const int64_t n = self->selectors, m = self->bits, E = self->experts;
    mf_tensor *t = mf_linear(g, x, mf->use(ctx, g, "bit.weight"), mf->use(ctx, g, "bit.bias"));
    mf_tensor *s = mf_reshape(g, smooth_step(g, t, self->c->gamma), mf_shape3(T, n, m));
    float *slope = malloc((size_t)E * 2 * sizeof *slope), *start = slope + E;
    if (!slope) {
        mf->fail(ctx, MF_ENOMEM, "no memory for the numbers of %d experts", (int)E);
        return NULL;
    }
    mf_tensor *r = NULL;
    /* Multiplies S or 1 - S, depending on the bit of each expert. */
    for (int64_t j = 0; j < m; j++) {
        for (int64_t e = 0; e < E; e++) {
            const bool set = (e >> (m - 1 - j)) & 1;
            slope[e] = set ? 1 : -1;
            start[e] = set ? 0 : 1;
        }
        mf_tensor *a = mf->constant(g, MF_F32, mf_shape3(1, 1, E), slope),
                  *b = mf->constant(g, MF_F32, mf_shape3(1, 1, E), start);
        mf_tensor *factor = mf_add(g, mf_mul(g, mf_slice(g, s, 2, j, 1), a), b);
        r = r ? mf_mul(g, r, factor) : factor;
    }
    free(slope);
    return r;
}

/* mean over real tokens of v [T] */
static mf_tensor *mean_of(mf_graph *g, const mf_router_in *in, mf_tensor *v)
{
    if (!in->mask) return mf_mean(g, v, MF_ALL, false);
    return mf_div(g, mf_sum(g, mf_mul(g, v, in->mask), MF_ALL, false),
                  mf_clamp(g, mf_sum(g, in->mask, MF_ALL, false), 1, 1e30));
}

static void add_loss(mf_graph *g, mf_routing *out, const char *name, mf_tensor *v,
                     double weight)
{
    out->loss_name[out->n_losses] = name;
    out->loss[out->n_losses++] = mf_scale(g, v, weight);
}

static void choose(mf_graph *g, mf_routing *out, int64_t T, int64_t E)
{
    const int32_t one = 1;
    mf_tensor *used = mf_sign(g, mf_stop_gradient(g, out->prob)); /* [T,E] 0 or 1 */
    mf_tensor *number = mf_affine(g, mf_cast(g, mf_arange(g, E), MF_F32), 1, 1);
    mf_tensor *expert = mf_cast(g, mf_mul(g, used, number), MF_I32);
    expert = mf_sub(g, expert, mf->constant(g, MF_I32, mf_shape1(1), &one));
    out->expert = mf_reshape(g, expert, mf_shape1(T * E)); /* -1: a gate of 0 */
    out->gate = mf_reshape(g, out->prob, mf_shape1(T * E));
    out->own_top_k = (int32_t)E;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const conf *c = self->c;
    const int64_t T = (int64_t)in->batch * in->seq, E = self->experts, n = self->selectors;
    const float whole = 1;
    mf_tensor *u = n > 1 ? mf_softmax(g, mf_linear(g, in->x, mf->use(ctx, g, "selector.weight"),
                                                   mf->use(ctx, g, "selector.bias")))
                         : mf_broadcast(g, mf->constant(g, MF_F32, mf_shape2(1, 1), &whole),
                                        mf_shape2(T, 1));
    if (E == 1) {
        out->prob = mf_sum(g, u, 2u, true);
    } else {
        mf_tensor *r = selected(self, ctx, g, in->x, T);
        mf_tensor *gate =
            mf_sum(g, mf_mul(g, r, mf_reshape(g, u, mf_shape3(T, n, 1))), 2u, false);
        out->prob = gate;
        if (c->entropy_weight > 0) {
            mf_tensor *h = mf_scale(g, mf_sum(g, mf_xlogx(g, r), 6u, false), -1);
            add_loss(g, out, "selector_entropy", mean_of(g, in, h), c->entropy_weight);
        }
        if (c->reach_weight > 0 && E != (int64_t)1 << self->bits) {
            mf_tensor *sum = mf_affine(g, mf_sum(g, r, 4u, false), 1, 1e-6); /* [T,n] */
            mf_tensor *v = mf_sum(g, mf_reciprocal(g, sum), 2u, false);
            add_loss(g, out, "reach", mean_of(g, in, v), c->reach_weight);
        }
    }
    out->renormalize = 0;
    if (c->rows == ALL) choose(g, out, T, E);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, rows, "all", rows_of, "experts of a token: with gates above 0, or k"),
    MF_OPTION_REAL(conf, gamma, "1", 1e-3, 1e3, 0, "width of the smooth step"),
    MF_OPTION_REAL(conf, entropy_weight, "0", 0, 100, 0, "weight of the selectors' entropy"),
    MF_OPTION_REAL(conf, reach_weight, "1", 0, 100, 0,
                   "weight of the loss against numbers without an expert"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "dselect_k", "1.0", "MIT",
                                  "differentiable selectors of experts (DSelect-k)", options,
                                  conf, router, &vtable);
