/* residual: a router whose logits also depend on those of the layer before (Jin et al. 2024,
 * MoE++, eq. 6).
 *
 *     logits_l = x W_l^T + logits_(l-1) V_l^T        without the second term in the first layer
 *
 * With copy = yes a later layer uses the unchanged logits of the layer before. */
#include <moefw/moefw.h>

typedef struct {
    int64_t copy;
} conf;

typedef struct {
    const conf *c;
    int later; /* V was declared */
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const int64_t E = dims->experts;
    self->c = conf_;
    self->later = dims->layer > 0 && !self->c->copy;
    int rc = mf->param(ctx, "weight", mf_shape2(E, dims->dim), MF_NORMAL(0.1));
    if (rc == MF_OK && self->later)
        rc = mf->param(ctx, "gate", mf_shape2(E, E), mf_init_of(MF_INIT_EYE, 1, 0));
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const mf_routing *before = MF_HAS(in, mf_router_in, previous) ? in->previous : NULL;
    if (self->c->copy && before) {
        out->logits = before->logits;
        return mf->status(g);
    }
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    if (self->later && before)
        out->logits =
            mf_add(g, out->logits, mf_linear(g, before->logits, mf->use(ctx, g, "gate"), NULL));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_BOOL(conf, copy, "no", 0, "later layers take the logits as they are"),
    MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "residual", "1.0", "MIT",
                   "logits that go on from the layer before", options, conf, router, &vtable);
