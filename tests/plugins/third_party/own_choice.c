/* own_choice: a router that chooses experts itself and has no probabilities, or with huge = yes
 * some infinite probabilities. No router of the project works like this. */
#include <moefw/moefw.h>

typedef struct {
    int64_t huge;
} conf;

typedef struct {
    int64_t huge, top_k;
} state;

static const mf_option options[] = {
    MF_OPTION_BOOL(conf, huge, "no", 0, "infinite probabilities"), MF_END_OPTIONS};

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    *(state *)self = (state){((const conf *)c)->huge, dims->top_k};
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.1));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const state *s = self;
    mf_tensor *l = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->expert = mf_reshape(g, mf_topk(g, l, s->top_k),
                             mf_shape1((int64_t)in->batch * in->seq * s->top_k));
    out->own_top_k = (int32_t)s->top_k;
    if (s->huge) out->prob = mf_affine(g, mf_affine(g, mf_softmax(g, l), 1e30, 0), 1e30, 0);
    return mf->status(g);
}

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};
MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "own_choice", "1", "MIT",
                   "experts without probabilities", options, conf, state, &vtable);
