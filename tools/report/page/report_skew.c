/* Correlation of the quality of predictions with the balance of the experts, over the
 * evaluations. Evaluations without both numbers are skipped. With fewer than 10 evaluations
 * there is no correlation, because its interval would be nearly as wide as -1 to 1. */
#include "report/page/report_parts.h"
#include "run/metrics/correlation.h"

#include <string.h>

#define LEAST 10 /* fewest evaluations for a correlation */

/* l2 distance of the experts' gate shares from equal shares; mean over the layers. */
static double distance_from_even(const mf_metrics_record *m)
{
    double sum = 0;
    for (int i = 0; i < m->n_layers; i++)
        sum += mf_from_even(m->layers[i].experts, m->layers[i].importance, false);
    return sum / m->n_layers;
}

static double imbalance(const mf_metrics_record *m)
{
    double sum = 0;
    for (int i = 0; i < m->n_layers; i++)
        sum += m->layers[i].load_cv;
    return sum / m->n_layers;
}

/* Accuracy; if it is missing, Pearson's r; if both are missing, the task loss. */
static double quality(const mf_metrics_record *m)
{
    if (!isnan(m->accuracy)) return m->accuracy;
    return isnan(m->mse) ? m->task_loss : m->pearson;
}

static const char *quality_name(const mf_metrics_record *m)
{
    if (!isnan(m->accuracy)) return "accuracy";
    return isnan(m->mse) ? "loss" : "Pearson's r";
}

typedef struct correlations {
    int n;           /* number of evaluations with both numbers */
    double r;        /* Pearson's r over the evaluations */
    double r_change; /* the same for the changes from one evaluation to the next */
} correlations;

/* Correlations of skew and quality; NaN with fewer than LEAST evaluations. */
static correlations correlate(const mf_report_run *r,
                              double (*skew)(const mf_metrics_record *m))
{
    const mf_metrics_history *h = r->history;
    double *x = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *x),
           *y = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *y);
    correlations c = {0, NAN, NAN};
    for (int i = 0; x && y && i < h->n; i++) {
        const mf_metrics_record *m = &h->records[i];
        if (strcmp(m->split, "val") != 0 || m->n_layers == 0) continue;
        /* a final validation of more batches is not comparable with those before it */
        if (m->curve.batches > 0 || !mf_metrics_compares(h->n, h->records, i)) continue;
        x[c.n] = skew(m);
        y[c.n] = quality(m);
        c.n += isfinite(x[c.n]) && isfinite(y[c.n]);
    }
    if (c.n < LEAST) return c;
    c.r = mf_pearson(c.n, x, y);
    for (int i = 0; i + 1 < c.n; i++) {
        x[i] = x[i + 1] - x[i];
        y[i] = y[i + 1] - y[i];
    }
    c.r_change = mf_pearson(c.n - 1, x, y);
    return c;
}

void mf_report_skew(const mf_report *p)
{
    static const char *const head[] = {"run",
                                       "quality",
                                       "evaluations",
                                       "r of l2 distance from even",
                                       "r of its changes",
                                       "r of load imbalance (CV)",
                                       "r of its changes"};
    static const char align[] = "llrrrrr";
    bool begun = false;
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const mf_metrics_record *val = mf_report_last(r, "val");
        const correlations l2 = correlate(r, distance_from_even), cv = correlate(r, imbalance);
        if (!val || (l2.n < LEAST && cv.n < LEAST)) continue;
        if (!begun) {
            mf_html_paragraph(p->d,
                              "Does uneven use of the experts go with quality? Pearson's "
                              "correlation over the evaluations of a run, means over layers. "
                              "Two numbers that both have a trend over the steps correlate "
                              "even if neither depends on the other; the correlation of their "
                              "changes between evaluations is free of this.");
            mf_html_table(p->d, align, head);
        }
        begun = true;
        const char *const cells[] = {r->name,
                                     quality_name(val),
                                     mf_report_strf(p, "n = %d", l2.n > cv.n ? l2.n : cv.n),
                                     mf_report_num(p, 3, l2.r),
                                     mf_report_num(p, 3, l2.r_change),
                                     mf_report_num(p, 3, cv.r),
                                     mf_report_num(p, 3, cv.r_change)};
        mf_html_row(p->d, align, cells);
    }
    if (begun) mf_html_table_end(p->d);
}
