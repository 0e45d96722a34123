/* sentinel: lowers the gates of attention heads that seem redundant, and prunes heads whose
 * gates have become small (Adaptive Transformer with Sentinel Gates, sections 3.2 and 4.2;
 * repository CambrianTech/sentinel-ai: controller_ann.py, controller_manager.py).
 *
 *     logit -= entropy_step  * rate   where the entropy of the head's attention is high
 *     logit -= gradient_step * rate   where the norm of its gradient is low
 *     logit += importance_step * rate where its importance is high and its gate is not
 *     rate = max(rate_min, rate * rate_decay^floor(step / rate_steps))
 *     pruned: gate < prune_below, up to max_pruned of all heads
 *
 * The paper requires "consistently" high or low values; the published code uses a single step.
 * Here a measurement is averaged with the factor `memory` and must hold for `window` calls.
 * With memory = 0 and window = 1 a single step decides, as in the published code. The defaults
 * of thresholds, steps and rates come from that code, which calls the controller every 100
 * steps (`every = 100`). At the first rate a high entropy lowers a logit by .001 per call. Even
 * without decay of the rate it would take 520,000 steps from 3.0 to -2.2 (a gate of .1), so
 * choose `rate` accordingly.
 *
 * The gates of all heads past a threshold are lowered by the same amount, so with select = all
 * they reach the limit together. select = worst lowers only as many gates as heads may still be
 * pruned: those of the least important heads, or, if no importance was measured, of the heads
 * with the highest entropy. No gate is lowered further once max_pruned is reached. The gate of
 * a reactivated head is not lowered, and the head is not pruned, for `grace` steps.
 *
 * If several query heads share a head of keys and values (model.kv_heads), the shared head is
 * pruned with the last of these query heads. The gradient norm of a query head includes its
 * share of the shared head.
 *
 * With form = raw of the adapter head_gates the gates themselves are stored. The steps still
 * change their logits, which stay within -clamp .. clamp: a gate of 1 has the logit clamp.
 *
 * Each change sets the live options layers.N.attention.{gate,active}.H. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALL, WORST };
static const char *const selections[] = {"all", "worst", NULL};

typedef struct {
    double entropy_high, entropy_step, gradient_low, gradient_step, importance_high,
        importance_step, active, guard;
    double rate, rate_decay, rate_min, memory, clamp, prune_below, max_pruned, min_change;
    int64_t rate_steps, warmup, window, keep, patience, grace, importance_every, select;
} conf;

typedef struct {
    const conf *c;
    bool warned, raw; /* raw: stored gates are no logits */
    int32_t layers, heads;
} controller;

/* Buffers of [layers, heads]. A further buffer holds the numbers that the next enum names. */
enum { ENTROPY, GRADIENT, IMPORTANCE, HIGH, LOW, SINCE, WAS, LISTS };
static const char *const lists[LISTS] = {"entropy", "gradient", "importance", "high",
                                         "low",     "since",    "was"};
enum { CALLS, MEASURED, MEAN_GATE, STILL, STOPPED, NUMBERS };

typedef struct {
    const controller *s;
    const conf *c;
    mf_ctx *ctx;
    const mf_step *step;
    float *list[LISTS], *number;
    double rate;
    int32_t n, pruned, room; /* number of heads, of pruned heads, and of heads that may still
                              * be pruned */
} call;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    self->c = conf_;
    self->layers = dims->n_layers;
    self->heads = dims->heads;
    self->raw = dims->raw_gates != 0;
    for (int i = 0; i < LISTS; i++) {
        int rc = mf->buffer(ctx, lists[i], mf_shape2(dims->n_layers, dims->heads), MF_ZEROS);
        if (rc != MF_OK) return rc;
    }
    return mf->buffer(ctx, "state", mf_shape1(NUMBERS), MF_ZEROS);
}

static const mf_head_stats *layer_of(const mf_step *step, int32_t l)
{
    return (const mf_head_stats *)(const void *)((const char *)step->heads +
                                                 (size_t)l * step->heads[0].size);
}

static double seen_gate(const call *x, int32_t i)
{
    return (double)layer_of(x->step, i / x->s->heads)->gate[i % x->s->heads];
}

static bool is_active(const call *x, int32_t i)
{
    return layer_of(x->step, i / x->s->heads)->active[i % x->s->heads] != 0;
}

static void name_of(const call *x, int32_t i, const char *what, char out[64])
{
    snprintf(out, 64, "layers.%d.attention.%s.%d", (int)(i / x->s->heads), what,
             (int)(i % x->s->heads));
}

/* ---- measurements, averaged ---- */

static void mix(const call *x, float *list, int32_t i, double value)
{
    /* the first measurement has the full weight */
    const double m = x->number[CALLS] > 0 ? x->c->memory : 0;
    list[i] = (float)(m * (double)list[i] + (1 - m) * value);
}

static int measure(call *x)
{
    const bool ask =
        x->c->importance_every > 0 && (int64_t)x->number[CALLS] % x->c->importance_every == 0;
    float fresh[4096];
    const int32_t found = ask && x->n <= 4096 ? mf->head_importance(x->ctx, x->n, fresh) : 0;
    for (int32_t i = 0; i < x->n; i++) {
        const mf_head_stats *s = layer_of(x->step, i / x->s->heads);
        const int32_t h = i % x->s->heads;
        if (s->active[h] == 0) continue;
        if (s->entropy) mix(x, x->list[ENTROPY], i, (double)s->entropy[h]);
        if (s->grad_norm) mix(x, x->list[GRADIENT], i, (double)s->grad_norm[h]);
        if (i < found) mix(x, x->list[IMPORTANCE], i, (double)fresh[i]);
        const bool high = (double)x->list[ENTROPY][i] > x->c->entropy_high;
        const bool low = (double)x->list[GRADIENT][i] < x->c->gradient_low;
        x->list[HIGH][i] = high ? x->list[HIGH][i] + 1 : 0;
        x->list[LOW][i] = low ? x->list[LOW][i] + 1 : 0;
    }
    if (found > 0) x->number[MEASURED] = 1;
    return MF_OK;
}

/* ---- which heads are lowered ---- */

/* Whether head a is pruned before b: by importance if any was measured, else by entropy. */
static bool goes_before(const call *x, int32_t a, int32_t b)
{
    const float *imp = x->list[IMPORTANCE], *ent = x->list[ENTROPY];
    if (x->number[MEASURED] != 0 && imp[a] != imp[b]) return imp[a] < imp[b];
    if (ent[a] != ent[b]) return ent[a] > ent[b];
    return a < b;
}

static bool in_grace(const call *x, int32_t i)
{
    const double since = (double)x->list[SINCE][i];
    return since > 0 && (double)x->step->step - since < (double)x->c->grace;
}

static bool redundant(const call *x, int32_t i)
{
    const float window = (float)x->c->window;
    return is_active(x, i) && !in_grace(x, i) &&
           (x->list[HIGH][i] >= window || x->list[LOW][i] >= window);
}

/* Returns the number of other active heads of the layer that are not pruned before head i. */
static int32_t left_behind(const call *x, int32_t i)
{
    int32_t n = 0;
    for (int32_t j = i / x->s->heads * x->s->heads; j < (i / x->s->heads + 1) * x->s->heads;
         j++)
        if (j != i && is_active(x, j) && !(redundant(x, j) && goes_before(x, j, i))) n++;
    return n;
}

/* Whether head i is among the first `room` redundant heads in the order of goes_before. Heads
 * that their layer needs to keep `keep` heads do not count. */
static bool among_worst(const call *x, int32_t i)
{
    int32_t before = 0;
    if (left_behind(x, i) < x->c->keep) return false;
    for (int32_t j = 0; j < x->n; j++)
        if (j != i && redundant(x, j) && left_behind(x, j) >= x->c->keep &&
            goes_before(x, j, i))
            before++;
    return before < x->room;
}

/* ---- changing gates ---- */

static double clamped(double x, double most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* Returns the logit of a stored gate; for raw gates it is limited to the range that logits
 * may have. */
static double logit_of(const call *x, double value)
{
    if (!x->s->raw) return value;
    if (value <= 0 || value >= 1) return value <= 0 ? -x->c->clamp : x->c->clamp;
    return clamped(log(value / (1 - value)), x->c->clamp);
}

static double gate_of(const call *x, double value)
{
    return x->s->raw ? (value < 0 ? 0 : value > 1 ? 1 : value) : 1 / (1 + exp(-value));
}

static int move_gate(call *x, int32_t i)
{
    const conf *c = x->c;
    const float window = (float)c->window;
    char name[64], why[96] = "";
    double delta = 0, value;
    size_t n = 0;
    const bool lower = redundant(x, i) && x->room > 0 && seen_gate(x, i) > c->guard &&
                       (c->select == ALL || among_worst(x, i));
    if (lower && x->list[HIGH][i] >= window) {
        delta -= c->entropy_step * x->rate;
        n += (size_t)snprintf(why + n, sizeof why - n, "entropy %.3g > %.3g",
                              (double)x->list[ENTROPY][i], c->entropy_high);
    }
    if (lower && x->list[LOW][i] >= window) {
        delta -= c->gradient_step * x->rate;
        n += (size_t)snprintf(why + n, sizeof why - n, "%sgradient %.3g < %.3g", n ? ", " : "",
                              (double)x->list[GRADIENT][i], c->gradient_low);
    }
    if (is_active(x, i) && x->number[MEASURED] != 0 && seen_gate(x, i) < c->active &&
        (double)x->list[IMPORTANCE][i] > c->importance_high) {
        delta += c->importance_step * x->rate;
        snprintf(why + n, sizeof why - n, "%simportance %.3g > %.3g", n ? ", " : "",
                 (double)x->list[IMPORTANCE][i], c->importance_high);
    }
    if (delta == 0) return MF_OK;
    name_of(x, i, "gate", name);
    int rc = mf->get_live(x->ctx, name, &value);
    if (rc != MF_OK) return rc;
    const double logit = clamped(logit_of(x, value) + delta, c->clamp);
    return mf->set_live(x->ctx, name, x->s->raw ? 1 / (1 + exp(-logit)) : logit, why);
}

static double gate_now(const call *x, int32_t i)
{
    char name[64];
    double value = 0;
    name_of(x, i, "gate", name);
    return mf->get_live(x->ctx, name, &value) == MF_OK ? gate_of(x, value) : 1;
}

static int32_t active_in_layer(const call *x, int32_t layer, const float *active)
{
    int32_t n = 0;
    for (int32_t i = layer * x->s->heads; i < (layer + 1) * x->s->heads; i++)
        n += is_active(x, i) && active[i] != 0;
    return n;
}

/* Prunes heads below the threshold, in the order of goes_before. From this call on WAS holds
 * which heads are active. */
static int prune(call *x)
{
    for (; x->room > 0; x->room--) {
        int32_t first = -1;
        for (int32_t i = 0; i < x->n; i++) {
            if (x->list[WAS][i] == 0 || in_grace(x, i)) continue;
            if (gate_now(x, i) >= x->c->prune_below) continue;
            if (active_in_layer(x, i / x->s->heads, x->list[WAS]) <= x->c->keep) continue;
            if (first < 0 || goes_before(x, i, first)) first = i;
        }
        if (first < 0) return MF_OK;
        char name[64], why[96];
        snprintf(why, sizeof why, "gate %.3g < %.3g", gate_now(x, first), x->c->prune_below);
        name_of(x, first, "active", name);
        int rc = mf->set_live(x->ctx, name, 0, why);
        if (rc != MF_OK) return rc;
        x->list[WAS][first] = 0;
        x->pruned++;
    }
    return MF_OK;
}

/* ---- one call ---- */

/* Records which heads are active and when heads were reactivated, counts pruned heads, and
 * resets their counts HIGH and LOW. */
static void watch(call *x)
{
    for (int32_t i = 0; i < x->n; i++) {
        const bool on = is_active(x, i);
        if (on && x->list[WAS][i] == 0 && x->number[CALLS] > 0)
            x->list[SINCE][i] = (float)x->step->step;
        if (!on) x->list[HIGH][i] = x->list[LOW][i] = 0;
        x->list[WAS][i] = on;
        x->pruned += !on;
    }
}

/* Detects stillness: no further change is made once the mean gate (pruned heads count 0) has
 * moved by less than min_change in `patience` calls in a row. */
static void judge_stillness(call *x)
{
    double mean = 0;
    for (int32_t i = 0; i < x->n; i++)
        mean += x->list[WAS][i] != 0 ? gate_now(x, i) / x->n : 0;
    if (x->number[CALLS] > 0) {
        const bool still = fabs(mean - (double)x->number[MEAN_GATE]) < x->c->min_change;
        x->number[STILL] = still ? x->number[STILL] + 1 : 0;
    }
    x->number[MEAN_GATE] = (float)mean;
    if (x->c->patience > 0 && x->number[STILL] >= (float)x->c->patience &&
        x->number[STOPPED] == 0) {
        x->number[STOPPED] = 1;
        mf->log(x->ctx, 2, "gates stand still (mean %.4g): no further changes", mean);
    }
}

static int begin(call *x, void *self, mf_ctx *ctx, const mf_step *step)
{
    int64_t count;
    *x = (call){.s = self, .c = ((controller *)self)->c, .ctx = ctx, .step = step};
    x->n = x->s->layers * x->s->heads;
    for (int i = 0; i < LISTS; i++)
        if (!(x->list[i] = mf->data(ctx, lists[i], &count)) || count != x->n)
            return mf->fail(ctx, MF_EPLUGIN, "no buffer %s", lists[i]);
    x->number = mf->data(ctx, "state", &count);
    if (!x->number) return mf->fail(ctx, MF_EPLUGIN, "no buffer state");
    x->rate = x->c->rate * pow(x->c->rate_decay, (double)(step->step / x->c->rate_steps));
    if (x->rate < x->c->rate_min) x->rate = x->c->rate_min;
    return MF_OK;
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
    call x;
    if (!step->heads || step->n_head_layers != ((controller *)self)->layers) {
        warn(self, ctx);
        return MF_OK;
    }
    int rc = begin(&x, self, ctx, step);
    if (rc != MF_OK) return rc;
    watch(&x);
    x.room = (int32_t)(x.c->max_pruned * x.n + 1e-9) - x.pruned;
    if (step->step >= x.c->warmup && x.number[STOPPED] == 0) {
        rc = measure(&x);
        for (int32_t i = 0; rc == MF_OK && i < x.n; i++)
            rc = move_gate(&x, i);
        if (rc == MF_OK) rc = prune(&x);
        judge_stillness(&x);
        x.number[CALLS]++;
    }
    return rc;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, entropy_high, "1.5", 0, 100, MF_OPT_LIVE,
                   "entropy of attention above which a gate is lowered, nats"),
    MF_OPTION_REAL(conf, entropy_step, "0.1", 0, 100, MF_OPT_LIVE,
                   "by so much of the rate: logits"),
    MF_OPTION_REAL(conf, gradient_low, "0.001", 0, 1e9, MF_OPT_LIVE,
                   "gradient norm below which a gate is lowered"),
    MF_OPTION_REAL(conf, gradient_step, "0.05", 0, 100, MF_OPT_LIVE, "by so much of the rate"),
    MF_OPTION_REAL(conf, importance_high, "0.7", 0, 1, MF_OPT_LIVE,
                   "importance above which an inactive head's gate is raised"),
    MF_OPTION_REAL(conf, importance_step, "0.2", 0, 100, MF_OPT_LIVE, "by so much of the rate"),
    MF_OPTION_REAL(conf, active, "0.1", 0, 1, MF_OPT_LIVE, "a gate below is inactive"),
    MF_OPTION_REAL(conf, guard, "0", 0, 1, MF_OPT_LIVE,
                   "a gate below is not lowered (the code: 0.2)"),
    MF_OPTION_REAL(conf, rate, "0.01", 0, 1e3, MF_OPT_LIVE, "factor on all steps"),
    MF_OPTION_REAL(conf, rate_decay, "0.95", 0, 1, 0, "the rate's factor every rate_steps"),
    MF_OPTION_INT(conf, rate_steps, "1000", 1, 9e15, 0, "optimizer steps"),
    MF_OPTION_REAL(conf, rate_min, "0.001", 0, 1e3, 0, "the rate's least"),
    MF_OPTION_INT(conf, warmup, "500", 0, 9e15, 0, "optimizer steps before the first change"),
    MF_OPTION_REAL(conf, memory, "0.9", 0, 0.9999, MF_OPT_LIVE,
                   "share of the past in a measurement; 0: the last one alone"),
    MF_OPTION_INT(conf, window, "1", 1, 1000000, 0,
                  "calls in a row in which a threshold has to be passed"),
    MF_OPTION_REAL(conf, clamp, "10", 0.1, 100, 0, "logits stay within"),
    MF_OPTION_REAL(conf, prune_below, "0.1", 0, 1, MF_OPT_LIVE, "a gate below is pruned"),
    MF_OPTION_REAL(conf, max_pruned, "0.3", 0, 1, MF_OPT_LIVE, "share of all heads, at most"),
    MF_OPTION_INT(conf, keep, "0", 0, 1024, 0, "heads that every layer keeps"),
    MF_OPTION_ENUM(conf, select, "all", selections,
                   "of the heads past a threshold: all, or as many as may still be pruned"),
    MF_OPTION_INT(conf, importance_every, "1", 0, 1000000, 0,
                  "calls between measurements of importance (a run forward a head); 0: none"),
    MF_OPTION_INT(conf, patience, "5", 0, 1000000, 0,
                  "calls without change after which it stops; 0: never"),
    MF_OPTION_REAL(conf, min_change, "0.01", 0, 1, 0, "of the mean gate: less is no change"),
    MF_OPTION_INT(conf, grace, "1000", 0, 9e15, 0,
                  "optimizer steps for which a head that came back is left alone"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), 0, init, NULL, on_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "sentinel", "1.0", "MIT",
                   "lowers the gates of redundant attention heads and prunes them", options,
                   conf, controller, &vtable);
