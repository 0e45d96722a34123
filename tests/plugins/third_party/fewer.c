/* fewer: sets the number of experts per token, moe.top_k, at one step of the run. */
#include <moefw/moefw.h>

typedef struct {
    int64_t at;
    double k;
} conf;

typedef struct {
    const conf *c;
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx, (void)dims;
    ((controller *)self_)->c = conf_;
    return MF_OK;
}

static int on_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const conf *c = ((controller *)self_)->c;
    if (step->step != c->at) return MF_OK;
    return mf->set_live(ctx, "moe.top_k", c->k, "planned");
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, at, "3", 1, 1e9, 0, "the step after which it changes"),
    MF_OPTION_REAL(conf, k, "1", 0, 100, 0, "experts a token from then on"), MF_END_OPTIONS};

static const mf_controller vtable = {
    .size = sizeof(mf_controller), .init = init, .on_step = on_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "fewer", "1.0", "MIT",
                   "another moe.top_k from a step on", options, conf, controller, &vtable);
