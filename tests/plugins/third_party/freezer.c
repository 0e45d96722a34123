/* freezer: a controller for tests. After step `at` it freezes the parameters whose names match
 * a pattern. */
#include <moefw/moefw.h>

typedef struct {
    int64_t at;
    const char *pattern;
} conf;

typedef struct {
    const conf *c;
} controller;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx;
    (void)dims;
    ((controller *)self)->c = conf_;
    return MF_OK;
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    const conf *c = ((controller *)self)->c;
    return step->step == c->at ? mf->freeze(ctx, c->pattern, true, "a test") : MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, at, "3", 0, 1e9, 0, "step after which it freezes"),
    MF_OPTION_STR(conf, pattern, "layers.*.router.*", "names of parameters"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), 0, init, NULL, on_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "freezer", "1.0", "MIT",
                   "freezes parameters after a step", options, conf, controller, &vtable);
