/* earlier: a router that reads earlier tokens of the sequence.
 *
 *     by = mean    logits of (x_t + x_(t-1) + x_(t-2)) / 3
 *     by = pair    the expert (id_(t-1) + id_t) mod E, without logits */
#include <moefw/moefw.h>

enum { MEAN, PAIR };
static const char *const ways[] = {"mean", "pair", NULL};

typedef struct {
    int64_t by;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    if (c->by == PAIR) return MF_OK;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(1));
}

/* Returns for each token the row of x [T,d] that is `back` positions earlier; 0 if the sequence
 * has no such token. A gemm with a matrix of 0 and 1 would compute the same, but 0 x Inf is
 * NaN, so one bad token would affect all others. */
static mf_tensor *rows_before(mf_graph *g, const mf_router_in *in, mf_tensor *x, int32_t back)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const int32_t one = 1, least = back - 1, minus = 1 - back;
    mf_tensor *ones = mf->constant(g, MF_I32, mf_shape1(1), &one),
              *lowest = mf->constant(g, MF_I32, mf_shape1(1), &least),
              *shift = mf->constant(g, MF_I32, mf_shape1(1), &minus);
    /* (t - back + 1) [position >= back] - 1: the index of the row, or -1 */
    mf_tensor *row =
        mf_mul(g, mf_add(g, mf_arange(g, T), shift), mf_greater(g, in->positions, lowest));
    return mf_gather_rows(g, x, mf_sub(g, row, ones));
}

static int by_mean(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    mf_tensor *sum = mf_add(g, in->x, rows_before(g, in, in->x, 1));
    sum = mf_add(g, sum, rows_before(g, in, in->x, 2));
    out->logits = mf_linear(g, mf_scale(g, sum, 1.0 / 3), mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

static int by_pair(mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const int32_t experts = in->experts;
    mf_tensor *E = mf->constant(g, MF_I32, mf_shape1(1), &experts);
    mf_tensor *ids = mf_reshape(g, mf_cast(g, in->token_ids, MF_F32), mf_shape2(T, 1));
    mf_tensor *past = mf_reshape(g, rows_before(g, in, ids, 1), mf_shape1(T));
    mf_tensor *sum = mf_add(g, mf_cast(g, past, MF_I32), in->token_ids);
    out->expert = mf_sub(g, sum, mf_mul(g, mf_div(g, sum, E), E));
    out->own_top_k = 1;
    return mf->status(g);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    return self->c->by == PAIR ? by_pair(g, in, out) : by_mean(ctx, g, in, out);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, by, "mean", ways, "what of the earlier tokens decides"),
    MF_END_OPTIONS};

static const mf_router vtable = {
    .size = sizeof(mf_router), .flags = MF_ROUTER_SEQUENCE, .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "earlier", "1.0", "MIT",
                                  "reads earlier tokens", options, conf, router, &vtable);
