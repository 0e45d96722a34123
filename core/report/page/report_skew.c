/* How the quality of predictions correlates with the balance of the experts, over the
 * evaluations. Evaluations without both numbers are skipped. */
#include "report/page/report_parts.h"
#include "train/metrics/correlation.h"

#include <string.h>

/* l2 distance of the experts' shares of the gates from even; mean over the layers. */
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

/* Accuracy; without it Pearson's r; without both the loss. */
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

/* Pearson's r of skew and quality over the *ret_n evaluations that have both numbers. */
static double correlation(const mf_report_run *r, double (*skew)(const mf_metrics_record *),
                          int *ret_n)
{
    const mf_metrics_history *h = r->history;
    double *x = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *x),
           *y = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *y);
    *ret_n = 0;
    for (int i = 0; x && y && i < h->n; i++) {
        const mf_metrics_record *m = &h->records[i];
        if (strcmp(m->split, "val") != 0 || m->n_layers == 0) continue;
        x[*ret_n] = skew(m);
        y[*ret_n] = quality(m);
        *ret_n += isfinite(x[*ret_n]) && isfinite(y[*ret_n]);
    }
    return mf_pearson(*ret_n, x, y);
}

void mf_report_skew(const mf_report *p)
{
    static const char *const head[] = {"run", "quality", "evaluations",
                                       "r of l2 distance from even",
                                       "r of load imbalance (CV)"};
    static const char align[] = "llrrr";
    bool begun = false;
    for (int i = 0; i < p->n; i++) {
        const mf_report_run *r = p->runs[i];
        const mf_metrics_record *val = mf_report_last(r, "val");
        int n, n_load;
        const double l2 = correlation(r, distance_from_even, &n),
                     cv = correlation(r, imbalance, &n_load);
        if (!val || (n < 3 && n_load < 3)) continue;
        if (!begun) {
            mf_html_paragraph(p->d,
                              "Does uneven use of the experts go with quality? Pearson's "
                              "correlation over the evaluations of a run, means over layers.");
            mf_html_table(p->d, align, head);
        }
        begun = true;
        const char *const cells[] = {
            r->name, quality_name(val), mf_report_strf(p, "n = %d", n > n_load ? n : n_load),
            n < 3 ? "-" : mf_report_num(p, 3, l2), n_load < 3 ? "-" : mf_report_num(p, 3, cv)};
        mf_html_row(p->d, align, cells);
    }
    if (begun) mf_html_table_end(p->d);
}
