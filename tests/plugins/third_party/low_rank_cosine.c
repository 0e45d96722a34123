/* low_rank_cosine: the logit is the cosine of a projection of x and an embedding of the expert,
 * times a learned scale (Chi et al. 2022, On the Representation Collapse of Sparse Mixture of
 * Experts, eq. 4). */
#include <moefw/moefw.h>

typedef struct {
    int64_t rank;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    int rc = mf->param(ctx, "project", mf_shape2(c->rank, dims->dim), MF_NORMAL(0.3));
    if (rc == MF_OK)
        rc = mf->param(ctx, "embed", mf_shape2(dims->experts, c->rank), MF_NORMAL(0.3));
    if (rc == MF_OK)
        rc = mf->param(ctx, "scale", mf_shape1(1), mf_init_of(MF_INIT_CONST, 3, 0));
    return rc;
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    mf_tensor *p = mf_linear(g, in->x, mf->use(ctx, g, "project"), NULL);
    mf_tensor *e = mf_l2_normalize(g, mf->use(ctx, g, "embed"), 1e-4);
    mf_tensor *cosine = mf_matmul(g, mf_l2_normalize(g, p, 1e-4), false, e, true, 1);
    out->logits = mf_mul(g, cosine, mf->use(ctx, g, "scale"));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, rank, "4", 1, 1024, 0, "width of the projection"), MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "low_rank_cosine", "1.0", "MIT",
                                  "cosines in a space of few dimensions", options, conf, router,
                                  &vtable);
