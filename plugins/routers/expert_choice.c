/* expert_choice: experts choose tokens (Zhou et al. 2022, eq. 1-2).
 *
 *     S = softmax_E(W x) [T,E];  each expert chooses the C tokens with its largest S;  gate = S
 *     C = floor(capacity T k / E), at least 1, at most T.  T: tokens of the batch, not padding
 *
 * Loads are equal by construction; a token may get no expert, or several experts. Padding is
 * never chosen. Whether a token is chosen depends on all tokens of the batch, including later
 * tokens. So a causal decoder refuses this router unless moe.force_causal = yes. Parameters:
 * E d. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    double capacity, init_std;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

/* Returns floor(capacity T k / E), at least 1, at most T. A capacity such as .29 is not exact
 * in binary. If the quotient is a whole number in decimals, the small term prevents that it
 * loses one unit. */
static int64_t taken(double capacity, int64_t tokens, int64_t top_k, int64_t experts)
{
    const double c = floor(capacity * (double)(tokens * top_k) / (double)experts + 1e-9);
    return c < 1 ? 1 : c > (double)tokens ? tokens : (int64_t)c;
}

/* [1,C]: 1 for those of an expert's C choices that the number of real tokens allows. Choice j
 * is allowed if there are at least need[j] tokens. */
static mf_tensor *allowed(mf_ctx *ctx, mf_graph *g, const conf *c, const mf_router_in *in,
                          int64_t C)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    float *need = malloc((size_t)C * sizeof *need);
    if (!need) {
        mf->fail(ctx, MF_ENOMEM, "no memory for the choices of %d tokens", (int)C);
        return NULL;
    }
    for (int64_t n = 1, j = 0; j < C; n++)
        for (; j < C && (n == T || taken(c->capacity, n, in->top_k, in->experts) > j); j++)
            need[j] = (float)n - 0.5f;
    mf_tensor *least = mf->constant(g, MF_F32, mf_shape2(1, C), need);
    free(need);
    mf_tensor *real = mf_reshape(g, mf_sum(g, in->mask, MF_ALL, false), mf_shape2(1, 1));
    return mf_greater(g, mf_broadcast(g, real, mf_shape2(1, C)), least);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    const int64_t C = taken(c->capacity, T, in->top_k, E);
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->prob = mf_softmax(g, out->logits);
    mf_tensor *s = mf_transpose(g, out->prob, 1, 0, 0, 0), *wanted = s; /* [E,T] */
    if (in->mask) /* padding is chosen last; core discards these choices */
        wanted = mf_add(g, s, mf_affine(g, mf_reshape(g, in->mask, mf_shape2(1, T)), 2, -2));
    mf_tensor *token = mf_topk(g, wanted, C); /* [E,C] */
    out->token = mf_reshape(g, token, mf_shape1(E * C));
    out->gate = mf_reshape(g, mf_take(g, s, token), mf_shape1(E * C));

    /* Assignment r belongs to expert r / C, so the list contains each expert's number
     * C times. */
    mf_tensor *index = mf_affine(g, mf_cast(g, token, MF_F32), 0, 0); /* [E,C] of zeros */
    float number[4096];
    if (E > 4096) return mf->fail(ctx, MF_ECONFIG, "at most 4096 experts, not %d", (int)E);
    for (int64_t e = 0; e < E; e++)
        number[e] = (float)(in->mask ? e + 1 : e);
    index = mf_add(g, index, mf->constant(g, MF_F32, mf_shape2(E, 1), number));
    if (in->mask) /* number of the expert, or -1 */
        index = mf_affine(g, mf_mul(g, index, allowed(ctx, g, c, in, C)), 1, -1);
    out->expert = mf_reshape(g, mf_cast(g, index, MF_I32), mf_shape1(E * C));
    out->own_top_k = in->top_k;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, capacity, "1", 0.01, 100, 0, "tokens per expert, in units of T k / E"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    sizeof(mf_router), MF_ROUTER_NOT_CAUSAL, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "expert_choice", "1.0", "MIT",
                   "each expert takes its best tokens", options, conf, router, &vtable);
