/* earlier: a router that reads earlier tokens of the sequence.
 *
 *     by = mean    logits of the mean of the tokens up to this one: x_bar_t = mean_(s <= t) x_s
 *     by = pair    the expert (id_(t-1) + id_t) mod E, without logits
 */
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

/* [n,n] 1 where the column's token is at most the row's */
static mf_tensor *up_to(mf_graph *g, int64_t n)
{
    mf_tensor *at = mf_arange(g, n);
    mf_tensor *later =
        mf_greater(g, mf_reshape(g, at, mf_shape2(1, n)), mf_reshape(g, at, mf_shape2(n, 1)));
    return mf_affine(g, mf_cast(g, later, MF_F32), -1, 1);
}

static int by_mean(mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t B = in->batch, n = in->seq, d = mf->shape(in->x).dim[1];
    mf_tensor *triangle = mf_reshape(g, up_to(g, n), mf_shape3(1, n, n));
    mf_tensor *seen = mf_broadcast(g, triangle, mf_shape3(B, n, n));
    if (in->mask) seen = mf_mul(g, seen, mf_reshape(g, in->mask, mf_shape3(B, 1, n)));
    mf_tensor *sum =
        mf_matmul(g, seen, false, mf_reshape(g, in->x, mf_shape3(B, n, d)), false, 1);
    sum = mf_div(g, sum, mf_clamp(g, mf_sum(g, seen, 4u, true), 1, 1e30));
    mf_tensor *mean = mf_reshape(g, sum, mf_shape2(B * n, d));
    out->logits = mf_linear(g, mean, mf->use(ctx, g, "weight"), NULL);
    return mf->status(g);
}

static int by_pair(mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    const int32_t one = 1, zero = 0, experts = in->experts;
    mf_tensor *ones = mf->constant(g, MF_I32, mf_shape1(1), &one),
              *zeros = mf->constant(g, MF_I32, mf_shape1(1), &zero),
              *E = mf->constant(g, MF_I32, mf_shape1(1), &experts);
    mf_tensor *ids = mf_reshape(g, mf_cast(g, in->token_ids, MF_F32), mf_shape2(T, 1));
    mf_tensor *before = mf_sub(g, mf_arange(g, T), ones);
    /* -1, which gathers 0, for the first token of a sequence */
    mf_tensor *later = mf_greater(g, in->positions, zeros);
    before = mf_sub(g, mf_mul(g, mf_add(g, before, ones), later), ones);
    mf_tensor *past =
        mf_cast(g, mf_reshape(g, mf_gather_rows(g, ids, before), mf_shape1(T)), MF_I32);
    mf_tensor *sum = mf_add(g, past, in->token_ids);
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
