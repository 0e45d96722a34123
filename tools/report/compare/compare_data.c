/* Reads the data of a comparison's report: comparison.json, plan.json and the runs. Only
 * comparison.json is required: a run that cannot be opened is skipped, and its router stays in
 * the table. */
#include "report/compare/compare_data.h"

#include "base/error.h"
#include "base/file/io.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX       (64u << 20)
#define RUNS_MAX       4096 /* most run directories that a page opens */
#define NAME_MAX_SHOWN 24u  /* longest text of a router that figures show unchanged */

static double real_of(const mf_json *object, const char *key)
{
    double v;
    return mf_json_real(mf_json_get(object, key), &v) ? v : NAN;
}

static int64_t int_of(const mf_json *object, const char *key)
{
    int64_t v;
    return mf_json_int(mf_json_get(object, key), &v) ? v : 0;
}

static bool bool_of(const mf_json *object, const char *key)
{
    bool v;
    return mf_json_bool(mf_json_get(object, key), &v) && v;
}

static const char *text_of(const mf_json *object, const char *key)
{
    const char *text = mf_json_string(mf_json_get(object, key), NULL);
    return text ? text : "";
}

static void range_of(const mf_json *object, const char *key, double *lo, double *hi)
{
    const mf_json *range = mf_json_get(object, key);
    *lo = *hi = NAN;
    mf_json_real(mf_json_at(range, 0), lo);
    mf_json_real(mf_json_at(range, 1), hi);
}

/* The path of a run directory within this comparison's folder: FOLDER/ROUTER/seed-N. The
 * recorded path is not used, because the folder may have been moved. Fails with MF_EINPUT if
 * the path leaves the folder. */
static int run_folder(const char *folder, const char *dir, char **ret)
{
    const char *last = strrchr(dir, '/');
    const char *before = last;
    while (before && before > dir && before[-1] != '/')
        before--;
    if (before) dir = before;
    if (!mf_path_goes_down(dir))
        return mf_fail(MF_EINPUT, "%s: comparison.json names a run outside of it: %s", folder,
                       dir);
    *ret = mf_path_join(folder, dir);
    return *ret ? MF_OK : MF_ENOMEM;
}

static int open_runs(mf_comparison *c, mf_cmp_row *row, const mf_json *runs, int *opened)
{
    const size_t n = mf_json_typeof(runs) == MF_JSON_ARRAY ? mf_json_size(runs) : 0;
    row->runs = mf_arena_alloc(c->page.arena, (n + 1) * sizeof(mf_report_run *));
    if (!row->runs) return MF_ENOMEM;
    row->nmi_lo = INFINITY;
    row->nmi_hi = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const mf_json *run = mf_json_at(runs, i);
        const double nmi = real_of(run, "nmi_best");
        if (nmi < row->nmi_lo) row->nmi_lo = nmi;
        if (nmi > row->nmi_hi) row->nmi_hi = nmi;
        if (isnan(real_of(run, "task_loss")) || *opened == RUNS_MAX) continue;
        char *dir = NULL;
        int rc = run_folder(c->folder, text_of(run, "dir"), &dir);
        if (rc != MF_OK) return rc;
        rc = mf_report_run_open(dir, &row->runs[row->n_runs]);
        mf_free(dir);
        if (rc == MF_ENOMEM) return rc;
        if (rc != MF_OK) continue; /* the run was removed; the table still shows its result */
        row->n_runs++;
        ++*opened;
    }
    return MF_OK;
}

/* Index of the layer with the highest NMI(expert, label). If the last layer has no NMI, it is
 * the last layer. */
static int best_layer(const mf_report_run *r)
{
    const mf_sample *s = r->sample;
    if (!s || s->n_layers == 0) return r->n_layers - 1;
    int best = s->n_layers - 1;
    for (int i = 0; i < s->n_layers; i++)
        if (s->layers[i].nmi > s->layers[best].nmi) best = i;
    return best;
}

static int read_row(mf_comparison *c, const mf_json *v, mf_cmp_row *row, int *opened)
{
    *row = (mf_cmp_row){.router = text_of(v, "router"),
                        .shown = text_of(v, text_of(v, "name")[0] != '\0' ? "name" : "router"),
                        .verdict = text_of(v, "verdict"),
                        .difference = text_of(v, "difference"),
                        .p_margin = real_of(v, "p_margin_holm"),
                        .baseline = bool_of(v, "baseline"),
                        .rank = (int)int_of(v, "rank"),
                        .n = (int)int_of(v, "n"),
                        .failed = (int)int_of(v, "failed"),
                        .params = real_of(v, "params"),
                        .params_router = real_of(v, "params_router"),
                        .mean = real_of(v, "mean"),
                        .diff = real_of(v, "diff"),
                        .p_holm = real_of(v, "p_holm"),
                        .p_flip = real_of(v, "p_flip_holm"),
                        .p_better = real_of(v, "p_better"),
                        .load_cv = real_of(v, "load_cv"),
                        .drop_rate = real_of(v, "drop_rate"),
                        .nmi = real_of(v, "nmi"),
                        .nmi_best = real_of(v, "nmi_best"),
                        .tokens_per_s = real_of(v, "tokens_per_s")};
    range_of(v, "ci95", &row->lo, &row->hi);
    range_of(v, "diff_ci95", &row->diff_lo, &row->diff_hi);
    range_of(v, "equal_range", &row->equal_lo, &row->equal_hi);
    int rc = open_runs(c, row, mf_json_get(v, "runs"), opened);
    if (rc == MF_OK && row->n_runs > 0) {
        row->layer = best_layer(row->runs[0]);
        if (isnan(c->floor)) c->floor = row->runs[0]->floor;
    }
    return rc;
}

/* Sorts the best router first, and routers without a result last. */
static int by_rank(const void *a, const void *b)
{
    const mf_cmp_row *x = a, *y = b;
    const int rx = x->rank > 0 ? x->rank : 1 << 20, ry = y->rank > 0 ? y->rank : 1 << 20;
    return rx != ry ? rx - ry : strcmp(x->router, y->router);
}

/* Counts those of the first n routers that need a shorter name and use this plugin. */
static int same_plugin(const mf_comparison *c, int n, const char *router)
{
    const size_t plugin = strcspn(router, ":");
    int same = 0;
    for (int i = 0; i < n; i++)
        same += strlen(c->rows[i].shown) > NAME_MAX_SHOWN &&
                strcspn(c->rows[i].shown, ":") == plugin &&
                strncmp(c->rows[i].shown, router, plugin) == 0;
    return same;
}

/* Figures have no space for long lists of options. `mlp:hidden=64+activation=silu+...` becomes
 * `mlp:...`, or `mlp:...1` and `mlp:...2` if two routers use mlp. The table shows the
 * whole text. */
static void name_rows(mf_comparison *c)
{
    for (int i = 0; i < c->n; i++) {
        const char *router = c->rows[i].shown;
        const int all = same_plugin(c, c->n, router);
        size_t plugin = strcspn(router, ":");
        c->rows[i].name = router;
        if (strlen(router) <= NAME_MAX_SHOWN) continue;
        const char *begin = router;
        /* The end of a long path is shown. */
        for (; plugin > NAME_MAX_SHOWN; plugin--)
            begin++;
        const char *short_name =
            mf_report_strf(&c->page, "%.*s:\xe2\x80\xa6", (int)plugin, begin);
        if (all > 1)
            short_name =
                mf_report_strf(&c->page, "%s%d", short_name, same_plugin(c, i + 1, router));
        c->rows[i].name = short_name;
    }
}

static int read_all(mf_comparison *c)
{
    const mf_json *rows = mf_json_get(c->json, "rows");
    const size_t n = mf_json_typeof(rows) == MF_JSON_ARRAY ? mf_json_size(rows) : 0;
    int opened = 0, rc = MF_OK;
    c->metric = text_of(c->json, "metric");
    c->baseline = text_of(c->json, "baseline");
    c->equal = text_of(c->json, "equal");
    c->higher_is_better = bool_of(c->json, "higher_is_better");
    c->complete = bool_of(c->json, "complete");
    c->seeds = int_of(c->json, "seeds");
    c->steps = int_of(c->json, "steps");
    c->level = real_of(c->json, "level");
    c->level_total = real_of(c->json, "level_all_looks");
    c->margin = real_of(c->json, "margin");
    c->n_skipped = (int)mf_json_size(mf_json_get(c->json, "skipped"));
    c->rows = mf_arena_alloc(c->page.arena, (n + 1) * sizeof *c->rows);
    if (!c->rows) return MF_ENOMEM;
    for (; rc == MF_OK && c->n < (int)n; c->n++)
        rc = read_row(c, mf_json_at(rows, (size_t)c->n), &c->rows[c->n], &opened);
    if (rc == MF_OK && c->n == 0)
        rc = mf_fail(MF_EINPUT, "%s: comparison.json has no rows", c->folder);
    if (rc == MF_OK) qsort(c->rows, (size_t)c->n, sizeof *c->rows, by_rank);
    if (rc == MF_OK) name_rows(c);
    for (int i = 0; rc == MF_OK && i < c->n; i++)
        if (c->rows[i].baseline) c->baseline = c->rows[i].shown;
    return rc;
}

static int read_json(mf_comparison *c)
{
    char *path = mf_path_join(c->folder, "comparison.json"), *text = NULL;
    size_t size;
    if (!path) return MF_ENOMEM;
    int rc = mf_read_file(path, TEXT_MAX, &text, &size);
    if (rc == MF_OK) rc = mf_json_parse(path, text, size, &c->json);
    mf_free(text);
    mf_free(path);
    path = mf_path_join(c->folder, "plan.json");
    if (rc == MF_OK && path && mf_exists(path) &&
        mf_read_file(path, TEXT_MAX, &c->plan, &size) != MF_OK)
        c->plan = NULL; /* ignored: the page does not need plan.json */
    mf_free(path);
    return rc;
}

int mf_comparison_open(const char *folder, mf_comparison **ret)
{
    *ret = NULL;
    mf_comparison *c = mf_alloc(1, sizeof *c);
    if (!c) return MF_ENOMEM;
    c->page.arena = mf_arena_new();
    c->page.d = mf_doc_new();
    c->folder = folder;
    c->floor = NAN;
    const char *slash = strrchr(folder, '/');
    c->name = slash && slash[1] != '\0' ? slash + 1 : folder;
    int rc = c->page.arena && c->page.d ? read_json(c) : MF_ENOMEM;
    if (rc == MF_OK) rc = read_all(c);
    if (rc != MF_OK) {
        mf_comparison_close(c);
        return rc;
    }
    mf_error_clear();
    *ret = c;
    return MF_OK;
}

void mf_comparison_close(mf_comparison *c)
{
    if (!c) return;
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->rows[i].n_runs; k++)
            mf_report_run_close(c->rows[i].runs[k]);
    mf_json_free(c->json);
    mf_free(c->plan);
    mf_doc_free(c->page.d);
    mf_arena_free(c->page.arena);
    mf_free(c);
}
