/* This expert mixes the rows of different assignments. */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self, (void)c;
    return mf->param(ctx, "w", mf_shape3(dims->experts, dims->dim, dims->dim), MF_NORMAL(0.2));
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    mf_tensor *y = mf_grouped_linear(g, in->x, mf->use(ctx, g, "w"), in->offset, NULL);
    *ret_y = mf_sub(g, y, mf_mean(g, y, 1u, true));
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "bad_rows", "1", "MIT",
                                  "spoiled on purpose", options, char, char, &vtable);
