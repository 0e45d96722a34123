/* This is an expert, which a test loads as a router. */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)ctx;
    (void)conf;
    (void)dims;
    return MF_OK;
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    (void)ctx;
    *ret_y = in->x;
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "wrong_kind", "1", "MIT",
                                  "rows as they are", options, char, char, &vtable);
