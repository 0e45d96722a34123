/* train/schedule.c: computes the learning rate of a step: linear warmup, then the decay of the
 * configuration. It keeps no state, so resumed runs compute the same rates. */
#include "train/schedule.h"
#include <math.h>

double mf_schedule_lr(const mf_train_config *c, double lr, int64_t step, int64_t steps)
{
    if (step < c->warmup) return lr * (double)(step + 1) / (double)c->warmup;
    const int64_t rest = steps - c->warmup;
    double u = rest > 0 ? (double)(step - c->warmup) / (double)rest : 1;
    if (u > 1) u = 1;
    switch (c->schedule) {
    case MF_SCHEDULE_CONSTANT:
        return lr;
    case MF_SCHEDULE_LINEAR:
        return lr * (1 - (1 - c->lr_min) * u);
    case MF_SCHEDULE_WSD: {
        const double length = c->decay_share * (double)rest, done = (double)(steps - step);
        const double v = length > 0 && done < length ? 1 - done / length : 0;
        return lr * (1 - (1 - c->lr_min) * sqrt(v));
    }
    case MF_SCHEDULE_STEP:
        return c->step_size > 0 ? lr * pow(c->step_gamma, (double)(step / c->step_size)) : lr;
    default:
        return lr * (c->lr_min + (1 - c->lr_min) * 0.5 * (1 + cos(3.14159265358979323846 * u)));
    }
}
