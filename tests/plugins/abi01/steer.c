/* steer: a controller that uses every service for controllers. It changes a live option by the
 * trend of the loss, moves the selection bias by the loads, keeps state in a buffer, and
 * freezes parameters at the end. */
#include <moefw/moefw.h>
#include <stdio.h>

typedef struct {
    const char *option, *freeze;
    double by, rate;
    int64_t freeze_at;
} conf;

typedef struct {
    const conf *c;
} controller;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)dims;
    ((controller *)self)->c = c;
    return mf->buffer(ctx, "calls", mf_shape1(2), MF_ZEROS);
}

static int bias_of(const conf *c, mf_ctx *ctx, const mf_layer_stats *s)
{
    char name[64];
    int64_t n = 0;
    snprintf(name, sizeof name, "/layers.%d.moe.select_bias", (int)s->layer);
    float *b = mf->data(ctx, name, &n);
    if (!b || n != s->experts)
        return mf->fail(ctx, MF_EPLUGIN, "layer %d has no selection bias", (int)s->layer);
    for (int64_t e = 0; e < n; e++)
        b[e] += (float)(c->rate * (1.0 / (double)n - (double)s->demand[e]));
    return MF_OK;
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    const conf *c = ((controller *)self)->c;
    float *calls = mf->data(ctx, "calls", NULL);
    double loss[4], value = 0;
    calls[0] += 1;
    int32_t n = mf->history(ctx, "loss", 4, loss);
    int rc = mf->get_live(ctx, c->option, &value);
    if (rc == MF_OK && n > 1 && loss[0] < loss[n - 1]) {
        calls[1] += 1;
        rc = mf->set_live(ctx, c->option, value * c->by, "the loss falls");
    }
    for (int32_t l = 0; rc == MF_OK && l < step->n_layers; l++)
        rc = bias_of(c, ctx,
                     (const mf_layer_stats *)((const char *)step->layers +
                                              (size_t)l * step->layers[0].size));
    if (rc == MF_OK && step->step == c->freeze_at) {
        const char *name = mf->find(ctx, c->freeze, 0);
        if (!name) return MF_OK;
        mf->log(ctx, 3, "%s is the first to be frozen", name);
        rc = mf->freeze(ctx, c->freeze, true, "the end is near");
    }
    return rc;
}

static const mf_option options[] = {
    MF_OPTION_STR(conf, option, "train.lr", "the live option that is turned"),
    MF_OPTION_REAL(conf, by, "0.95", 0.1, 10, 0, "factor of one turn"),
    MF_OPTION_REAL(conf, rate, "0.05", 0, 1, MF_OPT_LIVE, "moves the selection bias"),
    MF_OPTION_STR(conf, freeze, "layers.*.norm1.weight", "names of parameters that are frozen"),
    MF_OPTION_INT(conf, freeze_at, "15", 0, 1e9, 0, "step after which they are; 0: never"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), MF_CONTROLLER_SELECT_BIAS, init,
                                     NULL, on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "steer", "1.0", "MIT",
                                  "turns an option and the selection bias", options, conf,
                                  controller, &vtable);
