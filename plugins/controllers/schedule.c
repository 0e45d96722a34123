/* schedule: changes one live option along a curve over the steps of the run.
 *
 *     u = (step - start) / (end - start), clamped to [0,1]
 *     linear       from + (to - from) u
 *     cosine       from + (to - from) (1 - cos(pi u)) / 2
 *     exponential  from (to / from)^u          (from and to of the same sign, not 0)
 *     step         from before end, to at end
 *
 * whole = yes rounds the value to the nearest whole number, which moe.top_k requires. For
 * example, from = 8 and to = 2 make dense routing sparse during the run (Nie et al. 2021,
 * EvoMoE); graphs are rebuilt at each change.
 *
 * target is the option's INI name: "router.temperature", "regularizer.balance.weight",
 * "train.lr". end = 0 means the planned last step. The value is a function of the step alone,
 * so a resumed run continues on the same curve. */
#include <moefw/moefw.h>
#include <math.h>

enum { LINEAR, COSINE, EXPONENTIAL, STEP };
static const char *const shapes[] = {"linear", "cosine", "exponential", "step", NULL};

typedef struct {
    const char *target;
    double from, to;
    int64_t start, end, shape, whole;
} conf;

typedef struct {
    const conf *c;
    int64_t end;
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    const conf *c = self->c = conf_;
    self->end = c->end ? c->end : dims->train_steps;
    if (c->end && c->end <= c->start)
        return mf->fail(ctx, MF_ECONFIG, "end = %lld is not after start = %lld",
                        (long long)c->end, (long long)c->start);
    if (c->shape == EXPONENTIAL && c->from * c->to <= 0)
        return mf->fail(ctx, MF_ECONFIG,
                        "shape = exponential needs from and to of one sign and not 0");
    return mf->want_live(ctx, c->target);
}

static double value_at(const controller *self, int64_t step)
{
    const conf *c = self->c;
    double u =
        self->end > c->start ? (double)(step - c->start) / (double)(self->end - c->start) : 1.0;
    u = u < 0 ? 0 : u > 1 ? 1 : u;
    switch (c->shape) {
    case LINEAR:
        return c->from + (c->to - c->from) * u;
    case COSINE:
        return c->from + (c->to - c->from) * (1 - cos(3.14159265358979323846 * u)) / 2;
    case EXPONENTIAL:
        return c->from * pow(c->to / c->from, u);
    default:
        return u < 1 ? c->from : c->to;
    }
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    const controller *s = self;
    const double at = value_at(s, step->step), value = s->c->whole ? round(at) : at;
    double now = 0;
    int rc = mf->get_live(ctx, s->c->target, &now);
    if (rc != MF_OK) return rc;
    return now == value ? MF_OK : mf->set_live(ctx, s->c->target, value, "schedule");
}

static const mf_option options[] = {
    MF_OPTION_STR(conf, target, NULL, "live option to move, by its INI name"),
    MF_OPTION_REAL(conf, from, NULL, -1e30, 1e30, 0, "value at start"),
    MF_OPTION_REAL(conf, to, NULL, -1e30, 1e30, 0, "value at end"),
    MF_OPTION_INT(conf, start, "0", 0, 9e15, 0, "first step of the curve"),
    MF_OPTION_INT(conf, end, "0", 0, 9e15, 0,
                  "last step of the curve; 0: the planned last step"),
    MF_OPTION_ENUM(conf, shape, "linear", shapes, "form of the curve"),
    MF_OPTION_BOOL(conf, whole, "no", 0, "round the value to a whole number"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), MF_CONTROLLER_BLIND, init, NULL,
                                     on_step};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "schedule", "1.0", "MIT",
                   "moves any live option along a curve", options, conf, controller, &vtable);
