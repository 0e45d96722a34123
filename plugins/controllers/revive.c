/* revive: experts that few assignments have chosen for a while get the weights of the
 * busiest experts.
 *
 *     idle_e = idle_e + 1 if expert e was chosen for less than threshold / E of the
 *     assignments of a step, else 0;   at idle_e = patience:  W_e = W_b + noise rms(W_b) n
 *
 * b is the expert with the most assignments in the step. If several experts of a layer reach
 * patience in the same step, the first one gets the weights of b, the second one those of the
 * expert with the second most assignments, and so on. n is drawn from N(0, 1). All parameters
 * layers.N.expert.* that belong to single experts are copied, and with copy_router = yes row b
 * of layers.N.router.weight. The optimizer's moments of these rows are set to 0, so the new
 * expert does not continue in the direction of the old one. idle is saved with the model, and
 * counts calls of the controller: with every = n it grows by 1 in n steps. The number of
 * experts may differ between layers. */
#include <moefw/moefw.h>
#include <stdio.h>

typedef struct {
    int64_t patience, copy_router;
    double threshold, noise;
} conf;

typedef struct {
    const conf *c;
    int32_t layers, experts, dim; /* experts: those of the layer that has most */
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    *self = (controller){conf_, dims->moe_layers, dims->experts, dims->dim};
    for (int32_t l = 0; MF_HAS(mf, mf_host, layer_dims) && l < dims->n_layers; l++) {
        mf_dims one = {.size = sizeof one};
        if (mf->layer_dims(ctx, l, &one) == MF_OK && one.experts > self->experts)
            self->experts = one.experts;
    }
    if (dims->moe_layers < 1)
        return mf->fail(ctx, MF_ECONFIG, "the model has no MoE layers with experts to revive");
    if (!MF_HAS(mf, mf_host, copy_row))
        return mf->fail(ctx, MF_ECONFIG, "this moefw cannot copy experts: get a newer one");
    return mf->buffer(ctx, "idle", mf_shape2(dims->moe_layers, self->experts), MF_ZEROS);
}

/* Returns the expert at position `turn`, from 0, in the order of falling numbers of
 * assignments; if two have the same number, the lower index is first. */
static int32_t busiest(const mf_layer_stats *s, int32_t turn)
{
    int32_t best = 0;
    for (int32_t b = 0; b < s->experts; b++) {
        int32_t before = 0;
        for (int32_t e = 0; e < s->experts; e++)
            before += s->demand[e] > s->demand[b] || (s->demand[e] == s->demand[b] && e < b);
        if (before == turn) best = b;
    }
    return best;
}

static int copy_expert(const controller *self, mf_ctx *ctx, const mf_layer_stats *s, int32_t to,
                       int32_t from)
{
    const int layer = s->layer;
    char name[96];
    const char *at;
    int64_t n = 0;
    int copied = 0;
    snprintf(name, sizeof name, "/layers.%d.expert.*", layer);
    for (int32_t i = 0; (at = mf->find(ctx, name, i)) != NULL; i++) {
        const int rc = mf->copy_row(ctx, at, to, from, self->c->noise);
        if (rc != MF_OK && rc != MF_ENOTFOUND) return rc;
        copied += rc == MF_OK;
    }
    if (copied == 0)
        return mf->fail(ctx, MF_ECONFIG,
                        "layer %d has no parameters of single experts: expected experts with "
                        "weights of their own, and model.share_layers = no",
                        layer);
    mf->log(ctx, 2, "layer %d: expert %d gets the weights of expert %d", layer, (int)to,
            (int)from);
    if (!self->c->copy_router) return MF_OK;
    snprintf(name, sizeof name, "/layers.%d.router.weight", layer);
    if (!mf->data(ctx, name, &n) || n != (int64_t)s->experts * self->dim)
        return mf->fail(ctx, MF_ECONFIG,
                        "the router of layer %d has no weight of %d rows: expected "
                        "copy_router = no",
                        layer, (int)s->experts);
    return mf->copy_row(ctx, name, to, from, self->c->noise);
}

static int revive(const controller *self, mf_ctx *ctx, const mf_layer_stats *s, float *idle)
{
    const double least = self->c->threshold / s->experts;
    int32_t turn = 0;
    double all = 0;
    for (int32_t e = 0; e < s->experts; e++)
        all += (double)s->demand[e];
    for (int32_t e = 0; e < s->experts && all > 0; e++) {
        idle[e] = (double)s->demand[e] < least ? idle[e] + 1 : 0;
        if ((double)idle[e] < (double)self->c->patience) continue;
        const int32_t from = busiest(s, turn);
        if ((double)s->demand[from] < least) break;
        const int rc = copy_expert(self, ctx, s, e, from);
        if (rc != MF_OK) return rc;
        idle[e] = 0;
        turn++;
    }
    return MF_OK;
}

static int on_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const controller *self = self_;
    float *idle = mf->data(ctx, "idle", NULL);
    int rc = MF_OK;
    if (!idle || step->skipped) return MF_OK;
    for (int32_t l = 0; l < step->n_layers && rc == MF_OK; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        if (s->experts > self->experts || l >= self->layers)
            return mf->fail(ctx, MF_EPLUGIN, "layer %d: expected at most %d experts, found %d",
                            (int)s->layer, (int)self->experts, (int)s->experts);
        rc = revive(self, ctx, s, idle + (int64_t)l * self->experts);
    }
    return rc;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, patience, "100", 1, 1000000000, 0,
                  "calls in a row in which an expert is idle"),
    MF_OPTION_REAL(conf, threshold, "0.01", 0, 1, 0,
                   "share of assignments, in units of 1 / E, below which an expert is idle"),
    MF_OPTION_REAL(conf, noise, "0.1", 0, 10, 0,
                   "noise on the copy, in units of the weights' root mean square"),
    MF_OPTION_BOOL(conf, copy_router, "yes", 0, "copy the row of router.weight as well"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {.size = sizeof(mf_controller),
                                     .flags = MF_CONTROLLER_UNEQUAL,
                                     .init = init,
                                     .on_step = on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "revive", "1.0", "MIT",
                                  "idle experts get the weights of the busiest ones", options,
                                  conf, controller, &vtable);
