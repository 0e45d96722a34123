/* plateau: reactivates pruned attention heads when learning stalls (Adaptive Transformer with
 * Sentinel Gates, section 4.2: "if validation loss plateaus and all heads remain highly
 * utilized, we activate preallocated inactive heads by initializing gates from zero").
 *
 * Learning stalls if the validation loss has not fallen by min_change for `patience`
 * evaluations. Heads are highly utilized if no active head has a gate below `used`. "From zero"
 * can be understood in two ways:
 *     start = ramp: the gate rises linearly from 0.01 to `to` over ramp_steps (as the
 *                   published code grows heads)
 *     start = half: the logit is 0, the gate 0.5
 * A reactivated head has the weights that it had when it was pruned. To get heads in reserve,
 * let the controller prune deactivate heads at step 1, before they have learned anything.
 * choose = balanced selects a head of the layer with the most pruned heads, choose = first the
 * first pruned head of the model, choose = random any pruned head.
 *
 * Each change sets the live options layers.N.attention.{gate,active}.H. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>

enum { RAMP, HALF };
static const char *const starts[] = {"ramp", "half", NULL};
enum { BALANCED, FIRST, RANDOM };
static const char *const choices[] = {"balanced", "first", "random", NULL};

typedef struct {
    int64_t patience, grow, start, ramp_steps, choose;
    double min_change, used, to;
} conf;

typedef struct {
    const conf *c;
    bool warned, raw; /* raw: the adapter head_gates has form = raw, so stored gates are
                       * no logits */
    int32_t layers, heads;
} controller;

enum { LAST, BEST, STALE, SEEN, NUMBERS };
#define RAMP_FROM 0.01

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    self->c = conf_;
    self->layers = dims->n_layers;
    self->heads = dims->heads;
    self->raw = dims->raw_gates != 0;
    /* since: the step at which a head whose gate still rises was reactivated; 0 for
     * other heads. */
    int rc = mf->buffer(ctx, "since", mf_shape2(dims->n_layers, dims->heads), MF_ZEROS);
    return rc == MF_OK ? mf->buffer(ctx, "state", mf_shape1(NUMBERS), MF_ZEROS) : rc;
}

static float *of_layer(mf_ctx *ctx, int32_t layer, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "/layers.%d.attention.%s", (int)layer, what);
    return mf->data(ctx, name, NULL);
}

static int turn(const controller *s, mf_ctx *ctx, int32_t i, const char *what, double value,
                const char *why)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.attention.%s.%d", (int)(i / s->heads), what,
             (int)(i % s->heads));
    return mf->set_live(ctx, name, value, why);
}

/* Returns the stored value of a gate: the gate itself, or its logit. */
static double kept(const controller *s, double gate)
{
    return s->raw ? gate : log(gate / (1 - gate));
}

static double gate_of(const controller *s, float value)
{
    return s->raw ? (double)value : 1 / (1 + exp(-(double)value));
}

/* ---- heads whose gates rise ---- */

static int rise(const controller *s, mf_ctx *ctx, float *since, int64_t step)
{
    int rc = MF_OK;
    for (int32_t i = 0; rc == MF_OK && i < s->layers * s->heads; i++) {
        char why[96];
        if (since[i] == 0) continue;
        const double from = (double)since[i],
                     u = ((double)step - from) / (double)s->c->ramp_steps,
                     gate = RAMP_FROM + (s->c->to - RAMP_FROM) * (u < 1 ? u : 1);
        const bool pruned = of_layer(ctx, i / s->heads, "active")[i % s->heads] == 0;
        if (pruned || u >= 1) since[i] = 0;
        snprintf(why, sizeof why, "came back at step %.0f%s", from,
                 u >= 1 ? ": the end of its ramp" : "");
        if (!pruned) rc = turn(s, ctx, i, "gate", kept(s, gate), why);
    }
    return rc;
}

/* ---- reactivation ---- */

static bool all_used(const controller *s, mf_ctx *ctx)
{
    for (int32_t l = 0; l < s->layers; l++) {
        const float *gate = of_layer(ctx, l, "gate"), *active = of_layer(ctx, l, "active");
        for (int32_t h = 0; h < s->heads; h++)
            if (active[h] != 0 && gate_of(s, gate[h]) < s->c->used) return false;
    }
    return true;
}

/* The mixing function of SplitMix (Steele, Lea, Flood 2014). */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Chooses a pruned head; -1: no head is pruned. */
static int32_t pick(const controller *s, mf_ctx *ctx, int64_t step)
{
    int32_t best = -1, most = 0, found = 0;
    for (int32_t l = 0; l < s->layers; l++) {
        const float *active = of_layer(ctx, l, "active");
        int32_t pruned = 0, first = -1;
        for (int32_t h = 0; h < s->heads; h++) {
            if (active[h] != 0) continue;
            if (first < 0) first = h;
            pruned++;
            found++;
            if (s->c->choose == RANDOM &&
                mixed((uint64_t)step * 4096 + (uint64_t)found) % (uint64_t)found == 0)
                best = l * s->heads + h;
        }
        if (s->c->choose == FIRST && best < 0 && first >= 0) best = l * s->heads + first;
        if (s->c->choose == BALANCED && pruned > most) {
            most = pruned;
            best = l * s->heads + first;
        }
    }
    return best;
}

static int grow(const controller *s, mf_ctx *ctx, float *since, const mf_step *step,
                const float *number)
{
    char why[96];
    snprintf(why, sizeof why, "validation loss %.4g: best %.4g for %d evaluations",
             step->val_loss, (double)number[BEST], (int)number[STALE]);
    int rc = MF_OK;
    for (int64_t n = 0; rc == MF_OK && n < s->c->grow; n++) {
        const int32_t i = pick(s, ctx, step->step);
        if (i < 0) break;
        const bool ramp = s->c->start == RAMP;
        rc = turn(s, ctx, i, "gate", kept(s, ramp ? RAMP_FROM : 0.5), why);
        if (rc == MF_OK) rc = turn(s, ctx, i, "active", 1, why);
        since[i] = ramp ? (float)step->step : 0;
    }
    return rc;
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
    float *since = mf->data(ctx, "since", NULL), *number = mf->data(ctx, "state", NULL);
    if (!since || !number) return mf->fail(ctx, MF_EPLUGIN, "its buffers are gone");
    if (!of_layer(ctx, 0, "gate")) {
        warn(s, ctx);
        return MF_OK;
    }
    int rc = rise(s, ctx, since, step->step);
    const float now = (float)step->val_loss;
    if (rc != MF_OK || isnan(step->val_loss) || (number[SEEN] != 0 && now == number[LAST]))
        return rc;
    number[LAST] = now;
    if (number[SEEN] == 0 || now < number[BEST] - (float)s->c->min_change) {
        number[SEEN] = 1;
        number[BEST] = now;
        number[STALE] = 0;
        return MF_OK;
    }
    number[STALE]++;
    if (number[STALE] < (float)s->c->patience || !all_used(s, ctx)) return MF_OK;
    rc = grow(s, ctx, since, step, number);
    number[STALE] = 0;
    number[BEST] = now;
    return rc;
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, patience, "5", 1, 1000000, 0,
                  "evaluations without a better one after which heads come back"),
    MF_OPTION_REAL(conf, min_change, "0.01", 0, 1e9, 0,
                   "nats: a loss that is lower by less is not better"),
    MF_OPTION_REAL(conf, used, "0.5", 0, 1, 0, "heads are used when no gate is below"),
    MF_OPTION_INT(conf, grow, "1", 1, 1000000, 0, "heads that come back at once"),
    MF_OPTION_ENUM(conf, choose, "balanced", choices, "which of the pruned heads"),
    MF_OPTION_ENUM(conf, start, "ramp", starts, "gate from 0.01 up, or 0.5 at once"),
    MF_OPTION_INT(conf, ramp_steps, "100", 1, 9e15, 0, "ramp: optimizer steps"),
    MF_OPTION_REAL(conf, to, "0.95", 0.02, 0.999, 0, "ramp: gate at its end"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), MF_CONTROLLER_BLIND, init, NULL,
                                     on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "plateau", "1.0", "MIT",
                                  "brings pruned attention heads back when validation stalls",
                                  options, conf, controller, &vtable);
