/* capacity: changes moe.capacity_factor during training, one factor for all experts.
 *
 *     rule = demand   phi = phi0 + k max(0, E d - 1), at most (1 + limit) phi0. d: the largest
 *                     share of a layer's assignments that chose one expert. That expert gets
 *                     the capacity C_i = C0 + k max(0, n_i - T/E) of adaptive capacity (Singh
 *                     and Adithya, section 3.2), which moe.adaptive_capacity computes for each
 *                     expert and batch
 *     rule = target   phi is multiplied by 1 + rate while more than `target` of the assignments
 *                     are dropped, and divided by 1 + rate while less than half of `target` are
 *                     dropped; it stays within lo .. hi
 *
 * d and the drop rate are the values of the worst layer, averaged over about `window` calls.
 * phi0 is the factor at the first call. A change smaller than `least` (relative) is not made.
 * The model must have a capacity: moe.capacity_factor above 0. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>

enum { DEMAND, TARGET };
static const char *const rules[] = {"demand", "target", NULL};
static const char option[] = "moe.capacity_factor";

typedef struct {
    int64_t rule, window;
    double k, limit, target, rate, lo, hi, least;
} conf;

typedef struct {
    const conf *c;
    int32_t experts;
} controller;

enum { MEAN, CALLS, BASE, KEPT }; /* elements of the buffer "state"; KEPT is their number */

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    self->c = conf_;
    self->experts = dims->experts;
    if (self->c->lo > self->c->hi)
        return mf->fail(ctx, MF_ECONFIG, "lo = %g is above hi = %g", self->c->lo, self->c->hi);
    const int rc = mf->want_live(ctx, option);
    return rc == MF_OK ? mf->buffer(ctx, "state", mf_shape1(KEPT), MF_ZEROS) : rc;
}

/* Returns the measurement that the rule uses, in the worst layer. */
static double look(const controller *self, const mf_step *step)
{
    double worst = 0;
    for (int32_t l = 0; l < step->n_layers; l++) {
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        double v = s->drop_rate;
        if (self->c->rule == DEMAND) {
            v = 0;
            for (int32_t e = 0; e < s->experts; e++)
                v = fmax(v, (double)s->demand[e]);
        }
        worst = fmax(worst, v);
    }
    return worst;
}

static double wanted(const controller *self, double mean, double base, double now, char *reason,
                     size_t room)
{
    const conf *c = self->c;
    if (c->rule == DEMAND) {
        const double over = fmax(0, mean * self->experts - 1);
        snprintf(reason, room, "the fullest expert is chosen by %.3g even shares",
                 mean * self->experts);
        return fmin(base + c->k * over, base * (1 + c->limit));
    }
    if (mean > c->target) {
        snprintf(reason, room, "%.3g of the rows dropped, over %.3g", mean, c->target);
        return fmin(now * (1 + c->rate), c->hi);
    }
    if (mean < c->target / 2) {
        snprintf(reason, room, "%.3g of the rows dropped, under half of %.3g", mean, c->target);
        return fmax(now / (1 + c->rate), c->lo);
    }
    return now;
}

static int on_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const controller *self = self_;
    char reason[128] = "";
    double now = 0;
    int64_t n = 0;
    float *state = mf->data(ctx, "state", &n);
    if (!state || n != KEPT) return mf->fail(ctx, MF_EPLUGIN, "the state is not there");
    int rc = mf->get_live(ctx, option, &now);
    if (rc != MF_OK) return rc;
    if (state[CALLS] == 0) state[BASE] = (float)now;
    if (state[CALLS] < (float)self->c->window) state[CALLS] += 1;
    state[MEAN] += (float)((look(self, step) - (double)state[MEAN]) / (double)state[CALLS]);
    const double to =
        wanted(self, (double)state[MEAN], (double)state[BASE], now, reason, sizeof reason);
    if (fabs(to - now) <= self->c->least * now) return MF_OK;
    return mf->set_live(ctx, option, to, reason);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, rule, "demand", rules, "follow uneven demand, or aim at a drop rate"),
    MF_OPTION_INT(conf, window, "20", 1, 100000, 0, "calls that averages reach over"),
    MF_OPTION_REAL(conf, k, "0.2", 0, 1e3, 0, "rule demand: slope"),
    MF_OPTION_REAL(conf, limit, "0.5", 0, 1e3, 0, "rule demand: at most this share more"),
    MF_OPTION_REAL(conf, target, "0.01", 0, 1, 0, "rule target: share of rows dropped"),
    MF_OPTION_REAL(conf, rate, "0.02", 0, 1, 0, "rule target: relative size of a turn"),
    MF_OPTION_REAL(conf, lo, "1", 0.01, 1e6, 0, "rule target: least factor"),
    MF_OPTION_REAL(conf, hi, "4", 0.01, 1e6, 0, "rule target: largest factor"),
    MF_OPTION_REAL(conf, least, "0.01", 0, 1, 0, "smallest relative change that is made"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), 0, init, NULL, on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "capacity", "1.0", "MIT",
                                  "changes the capacity factor by demand or by drop rate",
                                  options, conf, controller, &vtable);
