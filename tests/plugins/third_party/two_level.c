/* two_level: a router with two groups of experts. The probability of an expert is that of its
 * group times its own within the group (Jordan, Jacobs 1994, Hierarchical Mixtures of Experts,
 * eq. 2). If E is odd, the first group is the larger one. */
#include <moefw/moefw.h>

typedef struct {
    double unused;
} conf;

typedef struct {
    int64_t first, experts;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    (void)conf_;
    self->experts = dims->experts;
    self->first = (dims->experts + 1) / 2;
    int rc = mf->param(ctx, "expert", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.3));
    if (rc == MF_OK && dims->experts > 1)
        rc = mf->param(ctx, "group", mf_shape2(2, dims->dim), MF_NORMAL(0.3));
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    mf_tensor *l = mf_linear(g, in->x, mf->use(ctx, g, "expert"), NULL);
    if (self->experts == 1) {
        out->logits = l;
        return mf->status(g);
    }
    mf_tensor *group = mf_softmax(g, mf_linear(g, in->x, mf->use(ctx, g, "group"), NULL));
    mf_tensor *part[2];
    for (int i = 0; i < 2; i++) {
        const int64_t start = i ? self->first : 0,
                      count = i ? self->experts - self->first : self->first;
        part[i] = mf_mul(g, mf_softmax(g, mf_slice(g, l, 1, start, count)),
                         mf_slice(g, group, 1, i, 1));
    }
    out->prob = mf_concat(g, 2, part, 1);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, unused, "0", 0, 1, 0, "nothing"), MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "two_level", "1.0", "MIT",
                                  "a group, and an expert within it", options, conf, router,
                                  &vtable);
