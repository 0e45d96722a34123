/* smebu: balance by a selection bias whose steps are bounded and have momentum (Soft-clamped
 * Momentum Expert Bias Updates; Arcee Trinity 2026, as two readers of the report describe it).
 *
 *     d_e = rate tanh(kappa (mean n - n_e) / mean n),   d -= mean of d over experts
 *     v = momentum v + (1 - momentum) d,   b += v
 *
 * n_e is the number of assignments that chose expert e, before capacity. b is added to the
 * score for selection only, as with expert_bias. v is saved with the model. If a layer had no
 * assignment in a step, its b and v do not change. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>

typedef struct {
    double rate, momentum, kappa;
} conf;

typedef struct {
    const conf *c;
    int32_t layers, width; /* shape of the velocity: number of layers, and largest number of
                            * experts of a layer */
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    *self = (controller){conf_, dims->moe_layers, dims->experts};
    for (int32_t l = 0; l < dims->n_layers; l++) {
        mf_dims d = {.size = sizeof d};
        if (mf->layer_dims(ctx, l, &d) == MF_OK && d.experts > self->width)
            self->width = d.experts;
    }
    if (dims->moe_layers < 1)
        return mf->fail(ctx, MF_ECONFIG, "the model has no MoE layers to balance");
    return mf->buffer(ctx, "velocity", mf_shape2(dims->moe_layers, self->width), MF_ZEROS);
}

static void update(const conf *c, const mf_layer_stats *s, float *b, float *v)
{
    double mean = 0, center = 0;
    for (int32_t e = 0; e < s->experts; e++)
        mean += (double)s->demand[e] / s->experts;
    if (!(mean > 0)) return;
    for (int32_t e = 0; e < s->experts; e++)
        center += tanh(c->kappa * (mean - (double)s->demand[e]) / mean) / s->experts;
    for (int32_t e = 0; e < s->experts; e++) {
        const double soft = tanh(c->kappa * (mean - (double)s->demand[e]) / mean) - center;
        v[e] = (float)(c->momentum * (double)v[e] + (1 - c->momentum) * c->rate * soft);
        b[e] += v[e];
    }
}

static int on_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const controller *self = self_;
    int64_t n = 0, all = 0;
    float *v = mf->data(ctx, "velocity", &all);
    for (int32_t l = 0; v && l < step->n_layers; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        char name[64];
        snprintf(name, sizeof name, "/layers.%d.moe.select_bias", (int)s->layer);
        float *b = mf->data(ctx, name, &n);
        if (!b || n != s->experts || s->experts > self->width || l >= self->layers)
            return mf->fail(ctx, MF_EPLUGIN, "layer %d has no selection bias of %d experts",
                            (int)s->layer, (int)s->experts);
        update(self->c, s, b, v + (int64_t)l * self->width);
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, rate, "0.0005", 0, 1, MF_OPT_LIVE, "largest step before centring"),
    MF_OPTION_REAL(conf, momentum, "0.5", 0, 0.999999, 0, "share of the last step that stays"),
    MF_OPTION_REAL(conf, kappa, "2", 1e-6, 1e6, 0,
                   "how sharply steps grow with the relative gap"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller),
                                     MF_CONTROLLER_SELECT_BIAS | MF_CONTROLLER_UNEQUAL, init,
                                     NULL, on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "smebu", "1.0", "MIT",
                                  "balance by a bias with bounded steps and momentum (SMEBU)",
                                  options, conf, controller, &vtable);
