/* self_supervised: routing on features that are learned from the tokens themselves (DBGW, arXiv
 * 2506.16419, appendix X-1).
 *
 *     z = V2 gelu(V1 x + c1) + c2,   P = softmax((W z + b) / temperature)
 *     loss = -mean_i ln( e^(s_ii / tau) / sum_j e^(s_ij / tau) ),   s_ij = cos(z_i, z+_j)
 *     (InfoNCE)
 *
 * z+_i is the positive of token i: its features under a second, noisy view of x (positives =
 * noise), or those of the next token of its sequence (neighbour); for the last token, those of
 * the token before it. A group consists of n consecutive positions of the batch, where n is the
 * largest divisor of T up to negatives + 1. The negatives of a token are the positives of the
 * other tokens of its group. Padding is neither a positive nor a negative. The paper prints the
 * denominator without the positive: as_printed = yes. The mean is over tokens that have a
 * positive; with as_printed they must also have a negative. The loss has weight ss_weight and
 * exists in training only. Parameters: d h + h + h h + h + E h + E. */
#include <moefw/moefw.h>
#include <stdlib.h>

enum { NOISE, NEIGHBOUR };
static const char *const positives[] = {"noise", "neighbour", NULL};

#define MAX_GROUP 256
typedef struct {
    int64_t hidden, positives, negatives, as_printed;
    double noise, tau, ss_weight, init_std, temperature;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    const int64_t h = c->hidden, d = dims->dim, E = dims->experts;
    const mf_init weight = MF_NORMAL(c->init_std);
    int rc = mf->param(ctx, "v1", mf_shape2(h, d), weight);
    if (rc == MF_OK) rc = mf->param(ctx, "c1", mf_shape1(h), MF_ZEROS);
    if (rc == MF_OK) rc = mf->param(ctx, "v2", mf_shape2(h, h), weight);
    if (rc == MF_OK) rc = mf->param(ctx, "c2", mf_shape1(h), MF_ZEROS);
    if (rc == MF_OK) rc = mf->param(ctx, "weight", mf_shape2(E, h), weight);
    if (rc == MF_OK) rc = mf->param(ctx, "bias", mf_shape1(E), MF_ZEROS);
    return rc;
}

static mf_tensor *features(mf_ctx *ctx, mf_graph *g, mf_tensor *x)
{
    mf_tensor *h = mf_gelu(g, mf_linear(g, x, mf->use(ctx, g, "v1"), mf->use(ctx, g, "c1")));
    return mf_linear(g, h, mf->use(ctx, g, "v2"), mf->use(ctx, g, "c2"));
}

/* v [batch,seq,n] with each position replaced by the next position of its sequence, and the
 * last position by the position before it. back = true: each position is replaced by the
 * position before it, and the first position by the next one. */
static mf_tensor *shifted(mf_graph *g, const mf_router_in *in, mf_tensor *v, bool back)
{
    mf_tensor *parts[2];
    parts[0] = back ? mf_slice(g, v, 1, 1, 1) : mf_slice(g, v, 1, 1, in->seq - 1);
    parts[1] = back ? mf_slice(g, v, 1, 0, in->seq - 1) : mf_slice(g, v, 1, in->seq - 2, 1);
    return mf_concat(g, 2, parts, 1);
}

/* Returns for each token the features of the next token of its sequence; for the last token,
 * those of the token before it. *ret_has: [T,1], 1 for real tokens that have such a neighbour,
 * else 0; NULL without padding. */
static mf_tensor *neighbour(mf_graph *g, const mf_router_in *in, mf_tensor *z,
                            mf_tensor **ret_has)
{
    const int64_t T = (int64_t)in->batch * in->seq, h = mf->shape(z).dim[1];
    mf_tensor *all = mf_reshape(g, z, mf_shape3(in->batch, in->seq, h));
    mf_tensor *next = mf_reshape(g, shifted(g, in, all, false), mf_shape2(T, h));
    *ret_has = NULL;
    if (!in->mask) return next;
    mf_tensor *before = mf_reshape(g, shifted(g, in, all, true), mf_shape2(T, h));
    mf_tensor *real = mf_reshape(g, in->mask, mf_shape3(in->batch, in->seq, 1));
    mf_tensor *to_next = mf_reshape(g, shifted(g, in, real, false), mf_shape2(T, 1)),
              *to_before = mf_reshape(g, shifted(g, in, real, true), mf_shape2(T, 1));
    to_before = mf_mul(g, to_before, mf_affine(g, to_next, -1, 1));
    real = mf_reshape(g, in->mask, mf_shape2(T, 1));
    *ret_has = mf_mul(g, real, mf_add(g, to_next, to_before));
    return mf_add(g, mf_mul(g, next, to_next), mf_mul(g, before, to_before));
}

/* Returns the largest divisor of n that is at most limit. */
static int64_t group_size(int64_t n, int64_t limit)
{
    int64_t best = 1;
    for (int64_t i = 2; i <= limit; i++)
        if (n % i == 0) best = i;
    return best;
}

/* Subtracts 1e9 on the diagonal of s [groups,n,n], because no token is its own negative. */
static mf_tensor *without_own(mf_ctx *ctx, mf_graph *g, mf_tensor *s, int64_t n)
{
    float *away = malloc((size_t)(n * n) * sizeof *away);
    if (!away) {
        mf->fail(ctx, MF_ENOMEM, "no memory for groups of %d tokens", (int)n);
        return NULL;
    }
    for (int64_t i = 0; i < n * n; i++)
        away[i] = i % (n + 1) == 0 ? -1e9f : 0.0f;
    s = mf_add(g, s, mf->constant(g, MF_F32, mf_shape2(n, n), away));
    free(away);
    return s;
}

/* has [groups,n,1]: 1 for tokens with a positive. Returns 1 for tokens that also have a
 * negative, else 0. */
static mf_tensor *with_negative(mf_graph *g, mf_tensor *has)
{
    const float one = 1;
    mf_tensor *n = mf_sum(g, has, 2u, true); /* [groups,1,1] */
    mf_tensor *least = mf->constant(g, MF_F32, mf_shape3(1, 1, 1), &one);
    return mf_mul(g, has, mf_greater(g, n, mf_broadcast(g, least, mf->shape(n))));
}

/* has [T,1]: 1 for real tokens with a positive, as neighbour returns it; NULL: all real tokens
 * have a positive. */
static mf_tensor *info_nce(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                           mf_tensor *z, mf_tensor *plus, mf_tensor *has)
{
    const int64_t T = (int64_t)in->batch * in->seq, h = c->hidden;
    const int64_t n = group_size(T, c->negatives + 1), groups = T / n;
    z = mf_reshape(g, mf_l2_normalize(g, z, 1e-6), mf_shape3(groups, n, h));
    plus = mf_reshape(g, mf_l2_normalize(g, plus, 1e-6), mf_shape3(groups, n, h));
    mf_tensor *s = mf_matmul(g, z, false, plus, true, 1 / c->tau); /* [groups,n,n] */
    mf_tensor *own = mf_scale(g, mf_sum(g, mf_mul(g, z, plus), 4u, true), 1 / c->tau);
    if (!has) has = in->mask;
    if (has) { /* a token that is no positive is no negative either */
        mf_tensor *real = mf_reshape(g, has, mf_shape3(groups, 1, n));
        s = mf_add(g, s, mf_affine(g, real, 1e9, -1e9));
    }
    if (c->as_printed && n > 1) s = without_own(ctx, g, s, n);
    mf_tensor *each = mf_reshape(g, mf_sub(g, mf_logsumexp(g, s), own), mf_shape1(T));
    if (!has) return mf_mean(g, each, MF_ALL, false);
    if (c->as_printed) has = with_negative(g, mf_reshape(g, has, mf_shape3(groups, n, 1)));
    has = mf_reshape(g, has, mf_shape1(T));
    return mf_div(g, mf_sum(g, mf_mul(g, each, has), MF_ALL, false),
                  mf_clamp(g, mf_sum(g, has, MF_ALL, false), 1, 1e30));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *z = features(ctx, g, in->x);
    mf_tensor *logits = mf_linear(g, z, mf->use(ctx, g, "weight"), mf->use(ctx, g, "bias"));
    out->logits = mf_div(g, logits, mf->live(ctx, g, "temperature"));
    const bool enough = c->positives == NOISE ? in->batch * in->seq > 1 : in->seq > 1;
    if (mf->training(g) && c->ss_weight > 0 && enough) {
        mf_tensor *plus, *has = NULL;
        if (c->positives == NOISE) {
            mf_tensor *noise = mf_scale(g, mf_gaussian(g, mf->shape(in->x)), c->noise);
            plus = features(ctx, g, mf_add(g, in->x, noise));
        } else {
            plus = neighbour(g, in, z, &has);
        }
        out->loss_name[0] = "info_nce";
        out->loss[0] = mf_scale(g, info_nce(c, ctx, g, in, z, plus, has), c->ss_weight);
        out->n_losses = 1;
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "256", 1, 65536, 0, "width h of the features"),
    MF_OPTION_ENUM(conf, positives, "noise", positives, "what the positive of a token is"),
    MF_OPTION_INT(conf, negatives, "63", 1, MAX_GROUP - 1, 0, "negatives of a token, at most"),
    MF_OPTION_BOOL(conf, as_printed, "no", 0, "no positive in the denominator"),
    MF_OPTION_REAL(conf, noise, "0.1", 0, 10, 0, "size of the noise in the second view"),
    MF_OPTION_REAL(conf, tau, "0.1", 1e-3, 1e3, 0, "temperature of the loss"),
    MF_OPTION_REAL(conf, ss_weight, "0.01", 0, 100, 0, "weight of the loss"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "self_supervised", "1.0", "MIT",
                                  "features trained by InfoNCE, then a linear layer", options,
                                  conf, router, &vtable);
