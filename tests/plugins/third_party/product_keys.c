/* product_keys: the logit of expert (i, j) is the inner product of the first half of x with row
 * key i, plus that of the second half with column key j (Lample et al. 2019, Large Memory
 * Layers with Product Keys, section 3.2). E = rows x columns. */
#include <moefw/moefw.h>

typedef struct {
    int64_t rows;
} conf;

typedef struct {
    int64_t rows, columns;
} router;

/* The largest divisor of E that is at most its square root. */
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
    const conf *c = conf_;
    self->rows = c->rows > 0 ? c->rows : rows_of(dims->experts);
    if (dims->experts % self->rows != 0)
        return mf->fail(ctx, MF_ECONFIG,
                        "rows: expected a divisor of moe.experts, %d, found %d",
                        (int)dims->experts, (int)self->rows);
    self->columns = dims->experts / self->rows;
    const int64_t half = dims->dim / 2;
    int rc = mf->param(ctx, "row_keys", mf_shape2(self->rows, half), MF_NORMAL(0.3));
    if (rc == MF_OK)
        rc = mf->param(ctx, "column_keys", mf_shape2(self->columns, dims->dim - half),
                       MF_NORMAL(0.3));
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq, d = mf->shape(in->x).dim[1], half = d / 2;
    mf_tensor *a = mf_linear(g, mf_slice(g, in->x, 1, 0, half), mf->use(ctx, g, "row_keys"),
                             NULL);
    mf_tensor *b = mf_linear(g, mf_slice(g, in->x, 1, half, d - half),
                             mf->use(ctx, g, "column_keys"), NULL);
    mf_tensor *sum = mf_add(g, mf_reshape(g, a, mf_shape3(T, self->rows, 1)),
                            mf_reshape(g, b, mf_shape3(T, 1, self->columns)));
    out->logits = mf_reshape(g, sum, mf_shape2(T, in->experts));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, rows, "0", 0, 4096, 0, "row keys; 0: near the root of E"),
    MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "product_keys", "1.0", "MIT",
                                  "sums of row and column keys", options, conf, router,
                                  &vtable);
