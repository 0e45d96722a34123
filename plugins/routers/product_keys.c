/* product_keys: E keys that are composed from two small sets (Lample et al. 2019, Large Memory
 * Layers with Product Keys, section 3.2; He 2024, Mixture of a Million Experts).
 *
 *     expert (i, j) is number i columns + j;   logit = q1 . k1_i + q2 . k2_j
 *     gates = softmax over the logits of the k chosen experts
 *
 * q1 and q2 are the halves of a query: q = Wq x of width 2 key_dim, or x itself if key_dim = 0.
 * norm = layernorm normalises q (He 2024 and Lample et al. use a batch norm, which would depend
 * on the batch). E = rows x columns; rows = 0 uses the largest divisor of E up to its root. The
 * k best pairs are among the pairs of the k best i and the k best j, which saves work for very
 * many experts. With up to 4096 experts all sums are computed, with the same result. With k = 1
 * the softmax over one logit would always be 1, so the gate is then the softmax over all
 * experts, unless moe.renormalize = yes.
 *
 * Parameters: 2 key_dim d (+ 4 key_dim) + (rows + columns) key_dim. */
#include <moefw/moefw.h>

enum { NONE, LAYERNORM };
static const char *const norms[] = {"none", "layernorm", NULL};

typedef struct {
    int64_t key_dim, rows, norm;
    double init_std;
} conf;

typedef struct {
    const conf *c;
    int64_t rows, columns;
} router;

/* Returns the largest divisor of E that is at most its square root. */
static int64_t rows_of(int64_t experts)
{
    int64_t best = 1;
    for (int64_t r = 1; r * r <= experts; r++)
        if (experts % r == 0) best = r;
    return best;
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->rows = c->rows > 0 ? c->rows : rows_of(dims->experts);
    if (dims->experts % self->rows != 0)
        return mf->fail(ctx, MF_ECONFIG, "rows = %d does not divide the %d experts",
                        (int)self->rows, (int)dims->experts);
    if (c->key_dim == 0 && dims->dim < 2)
        return mf->fail(ctx, MF_ECONFIG, "key_dim = 0 needs a model.dim of at least 2");
    self->columns = dims->experts / self->rows;
    const int64_t d = dims->dim, width = c->key_dim > 0 ? 2 * c->key_dim : d, half = width / 2;
    const mf_init start = MF_NORMAL(c->init_std);
    int rc = c->key_dim > 0 ? mf->param(ctx, "query", mf_shape2(width, d), start) : MF_OK;
    if (rc == MF_OK && c->norm == LAYERNORM)
        rc = mf->param(ctx, "norm.weight", mf_shape1(width), MF_CONST(1));
    if (rc == MF_OK && c->norm == LAYERNORM)
        rc = mf->param(ctx, "norm.bias", mf_shape1(width), MF_ZEROS);
    if (rc == MF_OK) rc = mf->param(ctx, "row_keys", mf_shape2(self->rows, half), start);
    if (rc == MF_OK)
        rc = mf->param(ctx, "column_keys", mf_shape2(self->columns, width - half), start);
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *q = in->x;
    if (self->c->key_dim > 0) q = mf_linear(g, q, mf->use(ctx, g, "query"), NULL);
    if (self->c->norm == LAYERNORM)
        q = mf_layernorm(g, q, mf->use(ctx, g, "norm.weight"), mf->use(ctx, g, "norm.bias"),
                         1e-5);
    const int64_t width = mf->shape(in->x).dim[1],
                  all = self->c->key_dim > 0 ? 2 * self->c->key_dim : width, half = all / 2;
    mf_tensor *a = mf_linear(g, mf_slice(g, q, 1, 0, half), mf->use(ctx, g, "row_keys"), NULL);
    mf_tensor *b =
        mf_linear(g, mf_slice(g, q, 1, half, all - half), mf->use(ctx, g, "column_keys"), NULL);
    mf_tensor *sum = mf_add(g, mf_reshape(g, a, mf_shape3(T, self->rows, 1)),
                            mf_reshape(g, b, mf_shape3(T, 1, self->columns)));
    out->logits = mf_reshape(g, sum, mf_shape2(T, in->experts));
    if (in->top_k > 1) out->renormalize = 1;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, key_dim, "64", 0, 65536, 0,
                  "width of a half query and of the keys; 0: halves of x, no projection"),
    MF_OPTION_INT(conf, rows, "0", 0, 4096, 0, "row keys; 0: near the root of E"),
    MF_OPTION_ENUM(conf, norm, "none", norms, "norm of the query"),
    MF_OPTION_REAL(conf, init_std, "0.02", 1e-6, 10, 0,
                   "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "product_keys", "1.0", "MIT",
                                  "sums of a row key's and a column key's score", options, conf,
                                  router, &vtable);
