/* skewed: a linear router that assigns all tokens to `count` experts, from expert `first` on.
 * The other experts get no tokens if count >= top_k. */
#include <moefw/moefw.h>

typedef struct {
    int64_t first, count;
} conf;

typedef struct {
    const conf *c;
} router;

enum { MOST = 256 };

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    ((router *)self)->c = conf_;
    if (dims->experts > MOST) return mf->fail(ctx, MF_ECONFIG, "more than %d experts", MOST);
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.2));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self)->c;
    float more[MOST] = {0};
    for (int64_t i = c->first; i < c->first + c->count && i < in->experts; i++)
        more[i] = 50;
    mf_tensor *bias = mf->constant(g, MF_F32, mf_shape1(in->experts), more);
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), bias);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, first, "0", 0, 255, 0, "first expert that gets tokens"),
    MF_OPTION_INT(conf, count, "2", 1, 256, 0, "how many do"), MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "skewed", "1.0", "MIT", "all tokens to a few experts",
                   options, conf, router, &vtable);
