/* A table of the parameters of one run's model by module: how many exist, and how many one
 * token uses. The numbers come from the manifest, so no checkpoint is needed. */
#include "report/page/report_parts.h"

static const mf_json *modules_of(const mf_report_run *r)
{
    const mf_json *list = mf_json_get(r->manifest, "modules");
    return mf_json_typeof(list) == MF_JSON_ARRAY && mf_json_size(list) > 0 ? list : NULL;
}

bool mf_report_has_modules(const mf_report_run *r)
{
    return modules_of(r) != NULL;
}

static double number(const mf_json *object, const char *key)
{
    double v;
    return mf_json_real(mf_json_get(object, key), &v) ? v : 0;
}

static void row(const mf_report *p, const char *align, const char *name, const double v[4])
{
    const char *const cells[] = {
        name, mf_report_strf(p, "%.0f", v[0]), mf_report_strf(p, "%.0f", v[1]),
        mf_report_strf(p, "%.2f", v[2] / 1048576), mf_report_strf(p, "%.2f", v[3] / 1048576)};
    mf_html_row(p->d, align, cells);
}

void mf_report_modules(const mf_report *p, const mf_report_run *r)
{
    static const char *const head[] = {"module", "loaded", "inference (one token)",
                                       "MiB loaded", "MiB inference"};
    static const char *const keys[] = {"loaded", "inference", "bytes_loaded",
                                       "bytes_inference"};
    static const char align[] = "lrrrr";
    const mf_json *list = modules_of(r);
    double sum[4] = {0};
    if (!list) return;
    mf_html_section(p->d, "model", "Parameters");
    mf_html_table(p->d, align, head);
    for (size_t i = 0; i < mf_json_size(list); i++) {
        const mf_json *m = mf_json_at(list, i);
        const char *name = mf_json_string(mf_json_get(m, "module"), NULL);
        double v[4];
        for (int k = 0; k < 4; k++)
            sum[k] += v[k] = number(m, keys[k]);
        row(p, align, name ? name : "", v);
    }
    row(p, align, "all", sum);
    mf_html_table_end(p->d);
    mf_html_section_end(p->d);
}
