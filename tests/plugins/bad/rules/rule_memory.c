/* The learning rate depends on the number of this controller's calls, which is not saved. */
#include <moefw/moefw.h>

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self, (void)ctx, (void)c, (void)dims;
    return MF_OK;
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)step;
    return mf->set_live(ctx, "train.lr", 1e-3 / (double)++*(int64_t *)self,
                        "as often as called");
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_controller vtable = {sizeof(mf_controller), 0, init, NULL, on_step};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "bad_memory", "1", "MIT",
                                  "spoiled on purpose", options, char, int64_t, &vtable);
