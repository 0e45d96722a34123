/* The tasks of a run's heads: the unit of its loss, and a table of its tasks. The table is
 * written only for runs with several tasks. */
#include "report/page/report_parts.h"

#include <string.h>

const char *mf_report_loss_unit(const mf_report_run *r)
{
    const char *task = mf_report_config(r, "model", "task", "lm");
    const mf_metrics_record *val = mf_report_last(r, "val");
    if (val && val->n_tasks > 0) return "weighted sum over the tasks";
    if (strcmp(task, "regress") == 0) return "mean squared error";
    return strcmp(task, "classify") == 0 ? "nats/example" : "nats/token";
}

/* Mean number of bytes of a token, times ln 2; NaN: not known. */
static double bytes_of_a_token(const mf_report_run *r)
{
    const mf_metrics_record *val = mf_report_last(r, "val");
    return val ? mf_report_pick_loss(val, NULL) / val->bits_per_byte : NAN;
}

bool mf_report_by_bits(const mf_report *p)
{
    bool differ = false;
    for (int i = 0; i < p->n; i++) {
        const double first = bytes_of_a_token(p->runs[0]), own = bytes_of_a_token(p->runs[i]);
        if (isnan(own)) return false;
        differ = differ || fabs(own - first) > 1e-6 * first;
    }
    return differ;
}

bool mf_report_has_tasks(const mf_report_run *r)
{
    const mf_metrics_record *val = mf_report_last(r, "val");
    return val && val->n_tasks > 0;
}

/* Number of parameters of the task's head, from the manifest; NaN if not known. */
static double params_of(const mf_report_run *r, const char *task)
{
    const mf_json *list = mf_json_get(r->manifest, "tasks");
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    for (size_t i = 0; i < n; i++) {
        const mf_json *t = mf_json_at(list, i);
        const char *name = mf_json_string(mf_json_get(t, "name"), NULL);
        double params;
        if (name && strcmp(name, task) == 0 && mf_json_real(mf_json_get(t, "params"), &params))
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
