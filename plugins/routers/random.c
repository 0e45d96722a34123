/* random: k experts drawn at random for each token, anew in each step.
 *
 *     gate = 1 / k,   P = 1 / E for every expert
 *
 * The lower bound of a comparison: what the experts are worth without any routing. Nothing is
 * learned; loads are even on average. No parameters.
 */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)ctx;
    (void)conf;
    (void)dims;
    return MF_OK;
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    (void)self;
    (void)ctx;
    const int64_t T = (int64_t)in->batch * in->seq;
    out->score = mf_uniform(g, mf_shape2(T, in->experts));
    out->prob = mf_affine(g, out->score, 0, 1.0 / in->experts);
    out->renormalize = 1;
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "random", "1.0", "MIT",
                                  "experts drawn at random: the lower bound", options, char, char,
                                  &vtable);
