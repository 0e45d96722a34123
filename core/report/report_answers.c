/* What heads answer of whole examples: a table of the tasks; and how the quality of answers goes with
 * the balance of experts. */
#include "report/report_parts.h"
#include "train/correlation.h"

#include <string.h>

const char *mf_report_loss_unit(const mf_report_run *r)
{
    const char *task = mf_report_config(r, "model", "task", "lm");
    const mf_metrics_record *val = mf_report_last(r, "val");
    if (val != NULL && val->n_tasks > 0) return "weighted sum over the tasks";
    if (strcmp(task, "regress") == 0) return "mean squared error";
    return strcmp(task, "classify") == 0 ? "nats an example" : "nats a token";
}

bool mf_report_has_tasks(const mf_report_run *r)
{
    const mf_metrics_record *val = mf_report_last(r, "val");
    return val != NULL && val->n_tasks > 0;
}

/* Parameters of its head, as the manifest has them; NaN: not known. */
static double params_of(const mf_report_run *r, const char *task)
{
    const mf_json *list = mf_json_get(r->manifest, "tasks");
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    for (size_t i = 0; i < n; i++) {
        const mf_json *t = mf_json_at(list, i);
        const char *name = mf_json_string(mf_json_get(t, "name"), NULL);
        double params;
        if (name != NULL && strcmp(name, task) == 0 &&
            mf_json_real(mf_json_get(t, "params"), &params))
            return params;
    }
    return NAN;
}

void mf_report_tasks(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {
        "task", "learns",  "weight",  "parameters of the head", "loss", "accuracy", "macro F1",
        "RMSE", "Pearson", "Spearman"};
    static const char align[] = "llrrrrrrrr";
    const mf_metrics_record *val = mf_report_last(r, "val");
    if (!mf_report_has_tasks(r)) return;
    mf_html_section(p->d, "tasks", "Tasks");
    mf_html_paragraph(p->d,
                      "Of the last validation. The loss of the run is the sum of weight x "
                      "loss.");
    mf_html_table(p->d, align, head);
    for (int i = 0; i < val->n_tasks; i++) {
        const mf_task_score *t = &val->tasks[i];
        const char *const cells[] = {t->name,
                                     t->number ? "numbers" : "classes",
                                     mf_report_num(p, 4, t->weight),
                                     mf_report_num(p, 9, params_of(r, t->name)),
                                     mf_report_num(p, 5, t->loss),
                                     mf_report_num(p, 4, t->accuracy),
                                     mf_report_num(p, 4, t->macro_f1),
                                     mf_report_num(p, 4, sqrt(t->mse)),
                                     mf_report_num(p, 4, t->pearson),
                                     mf_report_num(p, 4, t->spearman)};
        mf_html_row(p->d, align, cells);
    }
    mf_html_table_end(p->d);
    mf_html_section_end(p->d);
}

/* ---- skew and quality ---- */

/* Means over the layers. */
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

/* Accuracy, else Pearson's r, else the loss. */
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

/* Over the evaluations that have both. */
static double correlation(const mf_report_run *r, double (*skew)(const mf_metrics_record *),
                          int *ret_n)
{
    const mf_metrics_history *h = r->history;
    double *x = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *x),
           *y = mf_arena_alloc(r->arena, ((size_t)h->n + 1) * sizeof *y);
    *ret_n = 0;
    for (int i = 0; x != NULL && y != NULL && i < h->n; i++) {
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
        if (val == NULL || (n < 3 && n_load < 3)) continue;
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
