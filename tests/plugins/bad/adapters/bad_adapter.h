/* bad_adapter.h: the frame of an adapter. Each file rule_adapter_* adds one mistake. The file
 * defines: APPLY, the code that changes y; POINTS and AT, the points of the adapter; PARAMS,
 * which declares its parameters; and PATH, where they are declared. */
#include <moefw/moefw.h>

#ifndef POINTS
#define POINTS MF_POINT_BIT(MF_AT_BLOCK_OUT)
#define AT     "block_out"
#endif
#ifndef PATH
#define PATH NULL
#endif
#ifndef PARAMS
#define PARAMS mf->param(ctx, "weight", mf_shape1(dims->dim), MF_NORMAL(0.3))
#endif

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)conf;
    return PARAMS;
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    (void)self;
    mf_tensor *w = mf->use(ctx, g, "weight");
    APPLY
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .path = PATH,
                                  .points = POINTS,
                                  .at = AT};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "bad", "1", "MIT",
                                  "spoiled on purpose", options, char, char, &vtable);
