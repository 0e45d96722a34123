/* expert_budget: a selection bias that keeps the mean number of feed-forward experts of a token
 * at a budget, if other experts cost nothing (LongCat-Flash 2025).
 *
 *     b_e += rate (budget / (k N) - n_e / (k T))     for the first N experts
 *
 * n_e of the T tokens chose expert e, and k is the mean number of experts of a token. The last
 * `free` experts cost nothing (zeros and copies of the expert plugin `mixed`), so N is
 * moe.experts - free. The bias moves each of the N experts to its share of the budget, so their
 * sum becomes the budget. The bias of the other experts stays 0, and the router alone divides
 * the remaining assignments among them. The report names a PID controller, and prints only this
 * part of it. In the report rate falls during training; the controller schedule can do this. A
 * loss that balances all experts equally works against this controller. */
#include <moefw/moefw.h>
#include <stdio.h>

typedef struct {
    double rate, budget;
    int64_t free;
} conf;

typedef struct {
    const conf *c;
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    const conf *c = conf_;
    *self = (controller){c};
    for (int32_t l = 0; l < dims->n_layers; l++) {
        mf_dims d = {.size = sizeof d};
        if (mf->layer_dims(ctx, l, &d) != MF_OK) continue;
        if (c->free >= d.experts)
            return mf->fail(ctx, MF_ECONFIG, "free = %d: expected fewer than moe.experts, %d",
                            (int)c->free, (int)d.experts);
        if (c->budget > d.top_k)
            return mf->fail(ctx, MF_ECONFIG, "budget = %g: expected at most moe.top_k, %d",
                            c->budget, (int)d.top_k);
    }
    return MF_OK;
}

static int on_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const controller *self = self_;
    for (int32_t l = 0; l < step->n_layers; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        char name[64];
        snprintf(name, sizeof name, "/layers.%d.moe.select_bias", (int)s->layer);
        int64_t n = 0;
        float *b = mf->data(ctx, name, &n);
        /* N, the number of feed-forward experts */
        const int32_t full = s->experts - (int32_t)self->c->free;
        if (!b || n != s->experts || full < 1)
            return mf->fail(ctx, MF_EPLUGIN, "layer %d has no selection bias of %d experts",
                            (int)s->layer, (int)s->experts);
        if (!(s->rows_per_token > 0)) continue;
        const double share = self->c->budget / (s->rows_per_token * full);
        for (int32_t e = 0; e < full; e++)
            b[e] += (float)(self->c->rate * (share - (double)s->demand[e]));
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, rate, "0.001", 0, 1, MF_OPT_LIVE, "size of corrections"),
    MF_OPTION_REAL(conf, budget, "1", 0, 4096, 0,
                   "mean number of experts that cost, of a token"),
    MF_OPTION_INT(conf, free, "1", 0, 4096, 0, "number of experts that cost nothing, the last"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller),
                                     MF_CONTROLLER_SELECT_BIAS | MF_CONTROLLER_UNEQUAL, init,
                                     NULL, on_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "expert_budget", "1.0", "MIT",
                   "a mean number of experts that cost, by a bias (LongCat-Flash)", options,
                   conf, controller, &vtable);
