/* expert_bias: balance without an auxiliary loss (DeepSeek-V3 2024, section 2.1.2; Wang et al.
 * 2024, Auxiliary-Loss-Free Load Balancing).
 *
 *     b_i += rate * sign(mean(load) - load_i)      (form = sign)
 *     b_i += rate * (mean(load) - load_i)          (form = proportional)
 *
 * b is added to the score for selection only: gates and gradients do not use it. load is the
 * share of chosen assignments before capacity. There is one bias per expert and layer; it is
 * saved with the model. */
#include <moefw/moefw.h>
#include <stdio.h>

enum { SIGN, PROPORTIONAL };
static const char *const forms[] = {"sign", "proportional", NULL};

typedef struct {
    double rate;
    int64_t form;
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
    for (int32_t l = 0; l < step->n_layers; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        char name[64];
        snprintf(name, sizeof name, "/layers.%d.moe.select_bias", (int)s->layer);
        int64_t n = 0;
        float *b = mf->data(ctx, name, &n);
        if (!b || n != s->experts)
            return mf->fail(ctx, MF_EPLUGIN, "layer %d has no selection bias of %d experts",
                            (int)s->layer, (int)s->experts);
        const double mean = 1.0 / s->experts;
        for (int32_t e = 0; e < s->experts; e++) {
            double gap = mean - (double)s->demand[e];
            if (c->form == SIGN) gap = gap > 0 ? 1 : gap < 0 ? -1 : 0;
            b[e] += (float)(c->rate * gap);
        }
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, rate, "0.001", 0, 1, MF_OPT_LIVE, "size of one correction"),
    MF_OPTION_ENUM(conf, form, "sign", forms, "fixed size, or in proportion to the gap"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), MF_CONTROLLER_SELECT_BIAS, init,
                                     NULL, on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "expert_bias", "1.0", "MIT",
                                  "auxiliary-loss-free balancing by a selection bias", options,
                                  conf, controller, &vtable);
