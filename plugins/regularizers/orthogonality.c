/* orthogonality: keeps the outputs of a token's experts apart (Guo et al. 2025, Advancing
 * Expert Specialization for Better MoE).
 *
 *     loss = mean over real tokens of  sum_j sum_(i != j) |proj_ij|^2
 *     proj_ij = <y_i, y_j> / (|y_j|^2 + eps) y_j,  so  |proj_ij|^2 = <y_i, y_j>^2 / |y_j|^2
 *
 * y_1, y_2, ... are the outputs of the token's admitted experts before the gates. The paper
 * prints a sum of the vectors proj_ij, which is no number; here it is the sum of their squared
 * lengths. Tokens with fewer than two experts add 0. The losses of layers are averaged; layers
 * with soft routing have none. The outputs of all experts are kept for this loss, [R,d] values
 * in each layer, and gates are applied after the experts. The paper's second loss is
 * the regularizer score_variance. */
#include <moefw/moefw.h>
#include <stdlib.h>

typedef struct {
    double eps;
} conf;

typedef struct {
    const conf *c;
} regularizer;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx, (void)dims;
    ((regularizer *)self)->c = conf_;
    return MF_OK;
}

/* Returns [T K]: the rows of each token, -1 where it has fewer than K. A token has at most one
 * row of an expert. */
static mf_tensor *rows_of_tokens(mf_graph *g, const mf_routing *r, int64_t K)
{
    const int64_t R = r->rows, E = r->experts, T = r->tokens;
    const int32_t one = 1, experts = r->experts;
    mf_tensor *row = mf_cast(g, mf_arange(g, R), MF_F32);
    /* the expert of a row: the number of later experts' offsets that are not above the row */
    mf_tensor *expert = mf_scale(g, row, 0);
    if (E > 1) {
        mf_tensor *at = mf_slice(g, mf_cast(g, r->offset, MF_F32), 0, 1, E - 1);
        mf_tensor *here = mf_reshape(g, mf_affine(g, row, 1, 0.5), mf_shape2(R, 1));
        expert =
            mf_sum(g, mf_greater(g, here, mf_reshape(g, at, mf_shape2(1, E - 1))), 2u, false);
    }
    /* in integers, because T E may be above 2^24; below 0: no row */
    mf_tensor *number =
        mf_mul(g, r->row_token, mf->constant(g, MF_I32, mf_shape1(1), &experts));
    mf_tensor *place = mf_add(g, number, mf_cast(g, expert, MF_I32));
    mf_tensor *next = mf_reshape(g, mf_affine(g, row, 1, 1), mf_shape2(R, 1));
    mf_tensor *table = mf_reshape(g, mf_scatter_rows(g, next, place, T * E), mf_shape2(T, E));
    mf_tensor *last = mf_cast(g, mf_take(g, table, mf_topk(g, table, K)), MF_I32);
    mf_tensor *ones = mf->constant(g, MF_I32, mf_shape1(1), &one);
    return mf_reshape(g, mf_sub(g, last, ones), mf_shape1(T * K));
}

/* Returns [1,K,K]: 0 on the diagonal, else 1. */
static mf_tensor *others(mf_ctx *ctx, mf_graph *g, int64_t K)
{
    float *v = malloc((size_t)(K * K) * sizeof *v);
    if (!v) {
        mf->fail(ctx, MF_ENOMEM, "no memory for pairs of %d experts", (int)K);
        return NULL;
    }
    for (int64_t i = 0; i < K * K; i++)
        v[i] = i % (K + 1) != 0;
    mf_tensor *t = mf->constant(g, MF_F32, mf_shape3(1, K, K), v);
    free(v);
    return t;
}

static mf_tensor *layer(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_routing *r)
{
    const int64_t T = r->tokens, slots = r->token ? r->experts : r->rows / T;
    const int64_t K = slots < r->experts ? slots : r->experts;
    mf_tensor *out = mf_cast(g, r->expert_out, MF_F32);
    const int64_t d = mf->shape(out).dim[1];
    mf_tensor *y =
        mf_reshape(g, mf_gather_rows(g, out, rows_of_tokens(g, r, K)), mf_shape3(T, K, d));
    mf_tensor *dot = mf_matmul(g, y, false, y, true, 1); /* [T,K,K] */
    mf_tensor *size = mf_reshape(g, mf_sum(g, mf_square(g, y), 4u, false), mf_shape3(T, 1, K));
    mf_tensor *along = mf_div(g, mf_square(g, dot), mf_affine(g, size, 1, c->eps));
    mf_tensor *sum = mf_sum(g, mf_mul(g, along, others(ctx, g, K)), MF_ALL, false);
    if (!r->mask) return mf_scale(g, sum, 1.0 / (double)T);
    return mf_div(g, sum, mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    const float zero = 0;
    mf_tensor *total = mf->constant(g, MF_F32, mf_shape0(), &zero);
    int32_t layers = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!routing[i]->expert_out) continue;
        total = mf_add(g, total, layer(((const regularizer *)self)->c, ctx, g, routing[i]));
        layers++;
    }
    *ret_loss = mf_scale(g, total, 1.0 / (layers > 0 ? layers : 1));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, eps, "1e-6", 1e-12, 1, 0, "added to squared lengths in divisors"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_OUTPUTS,
                                      .init = init,
                                      .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "orthogonality", "1.0", "MIT",
                                  "outputs of a token's experts at right angles", options, conf,
                                  regularizer, &vtable);
