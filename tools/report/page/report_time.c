/* Seconds that training took from one validation to the next, and the validations themselves.
 * metrics.jsonl has the time of the run after each validation, and the tokens of a validation
 * with their speed, from which its own seconds follow. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "lab/stats.h"
#include "report/page/report_curves.h"

/* [n] of the validations of a run, in order */
typedef struct times {
    int n;
    double *step, *training, *validation;
} times;

static times of_run(const mf_report_run *r)
{
    const mf_metrics_history *h = r->history;
    const size_t room = ((size_t)h->n + 1) * sizeof(double);
    times t = {0, mf_arena_alloc(r->arena, room), mf_arena_alloc(r->arena, room),
               mf_arena_alloc(r->arena, room)};
    double before = 0;
    if (!t.step || !t.training || !t.validation) return (times){0};
    for (int i = 0; i < h->n; i++) {
        const mf_metrics_record *m = &h->records[i];
        if (strcmp(m->split, "val") != 0 || !(m->wall_s > before) || !(m->tokens_per_s > 0))
            continue;
        const double validation = (double)m->tokens / m->tokens_per_s;
        const double training = m->wall_s - before - validation;
        before = m->wall_s;
        if (!(training > 0)) continue; /* two validations after the same step */
        t.step[t.n] = (double)m->step;
        t.training[t.n] = training;
        t.validation[t.n++] = validation;
    }
    return t;
}

bool mf_report_by_epoch(const mf_report_run *r)
{
    return atof(mf_report_config(r, "train", "eval_epochs", "0")) == 1;
}

void mf_report_seconds(const mf_report_run *r, double *ret_training, double *ret_validation)
{
    const times t = of_run(r);
    *ret_training = mf_median(t.training, t.n);
    *ret_validation = mf_median(t.validation, t.n);
}

void mf_report_time(const mf_report *p)
{
    mf_curves c = {0};
    bool epochs = true;
    for (int i = 0; i < p->n; i++) {
        const times t = of_run(p->runs[i]);
        const bool one = p->n == 1;
        epochs = epochs && mf_report_by_epoch(p->runs[i]);
        mf_series *s = mf_curves_add(&c, one ? "training" : p->runs[i]->name,
                                     (mf_track){t.n, t.step, t.training});
        if (s && !one) s->colour = s->run = i + 1;
        s = one ? mf_curves_add(&c, "validation (right)", (mf_track){t.n, t.step, t.validation})
                : NULL;
        if (s) s->right = true;
    }
    mf_curves_figure(
        p, epochs ? "Time of an epoch" : "Time from one validation to the next",
        "Training with its checkpoints, and with evaluations of training data.",
        (mf_plot){.y_label = "s", .right_label = "s of the validation", .from_zero = true}, &c);
}
