/* head_lr: attention heads that were reactivated learn faster for some steps (repository
 * CambrianTech/sentinel-ai: utils/head_lr_manager.py).
 *
 * The learning rate of a head is multiplied by this factor n steps after its reactivation:
 *
 *     1 + (boost - 1) n / warmup                    up to n = warmup
 *     max(1, boost * decay^(n - warmup))            then, up to n = cooldown
 *
 * after = both: when a head of a layer is pruned, the remaining heads of the layer get the
 * factor, too. Each change sets the live option layers.N.attention.lr_scale.H. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>

enum { REGROW, BOTH };
static const char *const occasions[] = {"regrow", "both", NULL};

typedef struct {
    double boost, decay;
    int64_t warmup, cooldown, after;
} conf;

typedef struct {
    const conf *c;
    bool warned;
    int32_t layers, heads;
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    self->c = conf_;
    self->layers = dims->n_layers;
    self->heads = dims->heads;
    /* since: the step at which the factor began, 0 for none. was: whether each head was active
     * at the last call. seen: 0 before the first call, which sets `was`. */
    int rc = mf->buffer(ctx, "since", mf_shape2(dims->n_layers, dims->heads), MF_ZEROS);
    if (rc == MF_OK)
        rc = mf->buffer(ctx, "was", mf_shape2(dims->n_layers, dims->heads), MF_ZEROS);
    return rc == MF_OK ? mf->buffer(ctx, "seen", mf_shape1(1), MF_ZEROS) : rc;
}

static double factor(const conf *c, double n)
{
    if (n <= (double)c->warmup)
        return 1 + (c->boost - 1) * (c->warmup > 0 ? n / (double)c->warmup : 1);
    const double f = c->boost * pow(c->decay, n - (double)c->warmup);
    return n > (double)c->cooldown || f < 1 ? 1 : f;
}

static void watch(const controller *s, const float *active, float *was, float *since,
                  float step)
{
    bool lost = false;
    for (int32_t h = 0; h < s->heads; h++) {
        if (active[h] != 0 && was[h] == 0) since[h] = step;
        lost |= active[h] == 0 && was[h] != 0;
        was[h] = active[h];
    }
    for (int32_t h = 0; lost && s->c->after == BOTH && h < s->heads; h++)
        if (active[h] != 0 && since[h] == 0) since[h] = step;
}

/* Warns once if no head of the model has a gate, because the controller can then
 * change nothing. */
static void warn(controller *self, mf_ctx *ctx)
{
    if (!self->warned)
        mf->log(ctx, 1,
                "heads have no gates here, there is nothing to do: an adapter head_gates "
                "gives them");
    self->warned = true;
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    controller *s = self;
    float *was = mf->data(ctx, "was", NULL), *since = mf->data(ctx, "since", NULL),
          *seen = mf->data(ctx, "seen", NULL);
    if (!was || !since || !seen) return mf->fail(ctx, MF_EPLUGIN, "its buffers are gone");
    for (int32_t l = 0; l < s->layers; l++) {
        char name[64];
        snprintf(name, sizeof name, "/layers.%d.attention.active", (int)l);
        const float *active = mf->data(ctx, name, NULL);
        float *at = since + l * s->heads;
        if (!active) {
            warn(s, ctx);
            return MF_OK;
        }
        for (int32_t h = 0; *seen == 0 && h < s->heads; h++)
            was[l * s->heads + h] = active[h];
        watch(s, active, was + l * s->heads, at, (float)step->step);
        for (int32_t h = 0; h < s->heads; h++) {
            char why[96];
            const double n = (double)step->step - (double)at[h];
            if (at[h] == 0 || active[h] == 0) continue;
            snprintf(name, sizeof name, "layers.%d.attention.lr_scale.%d", (int)l, (int)h);
            snprintf(why, sizeof why, "%.0f steps after the head's layer changed", n);
            const double f = factor(s->c, n);
            const int rc = mf->set_live(ctx, name, f, why);
            if (rc != MF_OK) return rc;
            if (n > (double)s->c->warmup && f == 1) at[h] = 0;
        }
    }
    *seen = 1;
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, boost, "5", 1, 1000, 0, "highest factor"),
    MF_OPTION_REAL(conf, decay, "0.9", 0, 1, 0, "its factor at each step behind the warm-up"),
    MF_OPTION_INT(conf, warmup, "200", 0, 9e15, 0, "optimizer steps up to the highest factor"),
    MF_OPTION_INT(conf, cooldown, "1000", 0, 9e15, 0, "optimizer steps until it is 1 again"),
    MF_OPTION_ENUM(conf, after, "regrow", occasions,
                   "for heads that came back, or also for those left when one is pruned"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), MF_CONTROLLER_BLIND, init, NULL,
                                     on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "head_lr", "1.0", "MIT",
                                  "attention heads that came back learn faster for a while",
                                  options, conf, controller, &vtable);
