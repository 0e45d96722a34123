/* Reads a folder of results and of records of verify, and sorts their routers into tables.
 * Files that are neither are skipped; a result that was changed is named. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/result/board.h"
#include "lab/result/result_parts.h"

enum { DEEPEST = 8, FILES_MAX = 4096, ROWS_MAX = 256 };
#define LEVEL 0.05

/* ---- files ---- */

typedef struct files {
    const char *path[FILES_MAX]; /* below the folder */
    int n;
} files;

static int list(mf_arena *arena, const char *folder, const char *below, int depth, files *ret)
{
    char *path = below[0] ? mf_path_join(folder, below) : mf_strdup(folder), **names = NULL;
    int n = 0, rc = path ? mf_list_dir(path, &names, &n) : MF_ENOMEM;
    for (int i = 0; rc == MF_OK && i < n && ret->n < FILES_MAX; i++) {
        const char *at = below[0] ? mf_arena_strf(arena, "%s/%s", below, names[i])
                                  : mf_arena_strdup(arena, names[i]);
        char *file = at ? mf_path_join(folder, at) : NULL;
        const size_t length = strlen(names[i]);
        if (!file)
            rc = MF_ENOMEM;
        else if (mf_is_dir(file) && depth < DEEPEST)
            rc = list(arena, folder, at, depth + 1, ret);
        else if (length > 5 && strcmp(names[i] + length - 5, ".json") == 0)
            ret->path[ret->n++] = at;
        mf_free(file);
    }
    mf_list_free(names, n);
    mf_free(path);
    return rc;
}

/* ---- tables ---- */

/* The data of a run: names, and hashes as the key. */
static const char *data_of(mf_arena *arena, const mf_json *run, const char *member)
{
    const mf_json *inputs = mf_json_get(run, "inputs");
    const char *text = "";
    for (size_t i = 0; text && i < mf_json_size(inputs); i++) {
        const mf_json *v = mf_json_at(inputs, i);
        if (strcmp(mf_result_text(v, "section"), "data") != 0) continue;
        text = mf_arena_strf(arena, "%s%s%s", text, text[0] ? ", " : "",
                             mf_result_text(v, member));
    }
    return text && text[0] == '\0' ? "data that moefw makes" : text;
}

static mf_board_table *table_for(mf_board *b, const mf_result *r, int most)
{
    const mf_json *run = mf_json_at(r->runs, 0);
    const char *metric = mf_result_text(r->table, "metric"),
               *base = mf_result_text(r->table, "baseline");
    const int64_t steps = mf_json_int_or_0(run, "steps");
    const char *key = mf_arena_strf(b->arena, "%s|%s|%s|%lld", data_of(b->arena, run, "sha256"),
                                    metric, base, (long long)steps);
    for (int i = 0; key && i < b->n; i++)
        if (strcmp(b->tables[i].key, key) == 0) return &b->tables[i];
    mf_board_table *t = &b->tables[b->n];
    *t = (mf_board_table){.key = key,
                          .data = data_of(b->arena, run, "name"),
                          .metric = mf_arena_strdup(b->arena, metric),
                          .baseline = mf_arena_strdup(b->arena, base),
                          .steps = steps,
                          .higher_is_better = strcmp(metric, "accuracy") == 0,
                          .results =
                              mf_arena_alloc(b->arena, (size_t)most * sizeof *t->results)};
    if (!t->key || !t->data || !t->metric || !t->baseline || !t->results) return NULL;
    b->n++;
    return t;
}

/* ---- rows ---- */

/* Losses of a router by seed, from the first seed on; NaN where a run failed. */
static void values_of(const mf_result *r, const char *router, const char *metric, int64_t first,
                      int seeds, double *ret)
{
    for (int i = 0; i < seeds; i++)
        ret[i] = (double)NAN;
    for (size_t i = 0; i < mf_json_size(r->runs); i++) {
        const mf_json *run = mf_json_at(r->runs, i);
        const int64_t at = mf_json_int_or_0(run, "seed") - first;
        if (at >= 0 && at < seeds && strcmp(mf_result_text(run, "router"), router) == 0)
            ret[at] = mf_json_real_or_nan(mf_json_get(run, "final"), metric);
    }
}

static double mean_of(const double *x, int n)
{
    return mf_estimate_of(x, n).mean;
}

/* Counts for each row the rows that are shown to be better, and those shown to be worse. */
static int rank(mf_board_row *rows, int n, const double *values, int seeds, bool higher)
{
    const size_t pairs = (size_t)n * (size_t)(n > 0 ? n - 1 : 0) / 2;
    double *p = mf_alloc(pairs + 1, sizeof *p), *holm = mf_alloc(pairs + 1, sizeof *holm);
    size_t at = 0;
    if (p && holm) {
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++)
                p[at++] = mf_paired_of(values + i * seeds, values + k * seeds, seeds).p;
        mf_holm(p, (int)pairs, holm);
        at = 0;
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++, at++) {
                if (!(holm[at] < LEVEL) || seeds < MF_VERDICT_SEEDS) continue;
                const bool first = (rows[i].mean < rows[k].mean) != higher;
                rows[first ? k : i].best++;
                rows[first ? i : k].worst--;
            }
    }
    const bool ok = p && holm;
    mf_free(p);
    mf_free(holm);
    return ok ? MF_OK : MF_ENOMEM;
}

static int take_rows(mf_board *b, mf_board_table *t, const mf_result *r, const char *file)
{
    const mf_json *rows = mf_json_get(r->table, "rows");
    const int n = (int)mf_json_size(rows), seeds = (int)mf_json_int_or_0(r->table, "seeds");
    mf_board_row *all = mf_arena_alloc(b->arena, (size_t)(t->n + n) * sizeof *all);
    double *values = mf_alloc((size_t)n * (size_t)seeds, sizeof *values);
    double *bits = mf_alloc((size_t)seeds, sizeof *bits);
    int rc = all && values && bits ? MF_OK : MF_ENOMEM;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < mf_json_size(r->runs); i++)
        if (mf_json_int_or_0(mf_json_at(r->runs, i), "seed") < first)
            first = mf_json_int_or_0(mf_json_at(r->runs, i), "seed");
    for (int i = 0; rc == MF_OK && i < n; i++) {
        const mf_json *v = mf_json_at(rows, (size_t)i);
        const char *router = mf_arena_strdup(b->arena, mf_result_text(v, "router"));
        const char *verdict = mf_arena_strdup(b->arena, mf_result_text(v, "verdict"));
        if (!router || !verdict) rc = MF_ENOMEM;
        if (rc != MF_OK) break;
        values_of(r, router, t->metric, first, seeds, values + i * seeds);
        values_of(r, router, "bits_per_byte", first, seeds, bits);
        const mf_estimate e = mf_estimate_of(values + i * seeds, seeds);
        all[t->n + i] = (mf_board_row){.router = router,
                                       .file = file,
                                       .baseline = strcmp(router, t->baseline) == 0,
                                       .n = e.n,
                                       .mean = e.mean,
                                       .half = e.hi - e.mean,
                                       .diff = mf_json_real_or_nan(v, "diff"),
                                       .lo = mf_json_real_or_nan(v, "diff_lo"),
                                       .hi = mf_json_real_or_nan(v, "diff_hi"),
                                       .bits = mean_of(bits, seeds),
                                       .verdict = verdict,
                                       .best = 1,
                                       .worst = n};
        for (size_t k = 0; k < mf_json_size(r->runs); k++)
            if (strcmp(mf_result_text(mf_json_at(r->runs, k), "router"), router) == 0 &&
                all[t->n + i].params == 0)
                all[t->n + i].params = mf_json_int_or_0(mf_json_at(r->runs, k), "params");
    }
    if (rc == MF_OK) rc = rank(all + t->n, n, values, seeds, t->higher_is_better);
    if (rc == MF_OK) {
        memcpy(all, t->rows, (size_t)t->n * sizeof *all);
        t->rows = all;
        t->n += n;
    }
    mf_free(values);
    mf_free(bits);
    return rc;
}

/* ---- marks ---- */

static void take_record(const mf_json *record, mf_board_mark *m)
{
    const mf_json *runs = mf_json_get(record, "runs"), *fresh = mf_json_get(record, "fresh");
    for (size_t i = 0; i < mf_json_size(runs); i++) {
        const mf_json *v = mf_json_at(runs, i);
        const char *how = mf_result_text(v, "how");
        const bool same = strcmp(how, "same") == 0;
        m->same += same;
        m->rounded += strcmp(how, "rounded") == 0;
        m->different += strcmp(how, "different") == 0;
        m->whole += same && mf_json_int_or_0(v, "from") == 0 &&
                    mf_json_int_or_0(v, "to") == mf_json_int_or_0(v, "steps");
    }
    const int n = (int)mf_json_int_or_0(fresh, "n");
    const double mean = mf_json_real_or_nan(fresh, "mean");
    if (n > 0 && mean >= mf_json_real_or_nan(fresh, "lo") &&
        mean <= mf_json_real_or_nan(fresh, "hi"))
        m->fresh += n;
    else if (n > 0)
        m->fresh_wrong += n;
}

/* Adds all records about the result with this hash. */
static int take_records(const char *folder, const files *f, const char *self, mf_board_mark *m)
{
    for (int i = 0; i < f->n; i++) {
        char *path = mf_path_join(folder, f->path[i]), *text = NULL;
        mf_json *doc = NULL;
        size_t n;
        if (!path) return MF_ENOMEM;
        if (mf_read_file(path, 1 << 20, &text, &n) == MF_OK &&
            mf_json_parse(path, text, n, &doc) == MF_OK &&
            strcmp(mf_result_text(doc, "format"), "moefw-verified") == 0 &&
            strcmp(mf_result_text(doc, "result"), self) == 0)
            take_record(doc, m);
        mf_json_free(doc);
        mf_free(text);
        mf_free(path);
        mf_error_clear();
    }
    return MF_OK;
}

/* ---- the board ---- */

static int refuse(mf_board *b, const char *file, const char *why)
{
    b->refused[b->n_refused] = mf_arena_strf(b->arena, "%s: %s", file, why);
    return b->refused[b->n_refused++] ? MF_OK : MF_ENOMEM;
}

static int take_file(mf_board *b, const char *folder, const files *f, int number)
{
    const char *file = f->path[number];
    char *path = mf_path_join(folder, file);
    mf_result *r = NULL;
    int tests, rc = path ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_result_read(path, &r) != MF_OK) {
        /* other files lie in such folders, too; only what claims to be a result is told */
        if (strstr(mf_error_message(), "\"self\"")) rc = refuse(b, file, "its hash is wrong");
    } else if (r && r->table && mf_result_check_table(r, &tests) != MF_OK) {
        rc = refuse(b, file, mf_error_message());
    } else if (r && mf_json_size(mf_json_get(r->table, "rows")) > ROWS_MAX) {
        rc = refuse(b, file, "it has more than 256 routers, too many to compare all pairs");
    } else if (r && r->table) {
        mf_board_table *t = table_for(b, r, f->n);
        mf_board_result *of = t ? &t->results[t->n_results] : NULL;
        const char *version = mf_result_text(mf_json_at(r->runs, 0), "moefw");
        rc = t ? take_rows(b, t, r, file) : MF_ENOMEM;
        if (rc == MF_OK) {
            *of = (mf_board_result){.file = file,
                                    .version = mf_arena_strdup(b->arena, version),
                                    .seeds = (int)mf_json_int_or_0(r->table, "seeds"),
                                    .runs = (int)mf_json_size(r->runs)};
            rc = of->version ? take_records(folder, f, r->self, &of->mark) : MF_ENOMEM;
            t->n_results++;
        }
    }
    if (rc == MF_OK) mf_error_clear();
    mf_result_free(r);
    mf_free(path);
    return rc;
}

static int better_first(const void *a, const void *b)
{
    const mf_board_row *x = a, *y = b;
    if (isnan(x->diff) || isnan(y->diff)) return isnan(x->diff) - isnan(y->diff);
    return (x->diff > y->diff) - (x->diff < y->diff);
}

static int better_last(const void *a, const void *b)
{
    return better_first(b, a);
}

int mf_board_read(const char *folder, mf_board **ret)
{
    mf_board *b = mf_alloc(1, sizeof *b);
    files *f = mf_alloc(1, sizeof *f);
    *ret = NULL;
    if (b) b->arena = mf_arena_new();
    int rc = b && f && b->arena ? list(b->arena, folder, "", 0, f) : MF_ENOMEM;
    if (rc == MF_OK) {
        b->tables = mf_arena_alloc(b->arena, ((size_t)f->n + 1) * sizeof *b->tables);
        b->refused = mf_arena_alloc(b->arena, ((size_t)f->n + 1) * sizeof *b->refused);
        if (!b->tables || !b->refused) rc = MF_ENOMEM;
    }
    for (int i = 0; rc == MF_OK && i < f->n; i++)
        rc = take_file(b, folder, f, i);
    if (rc == MF_OK && b->n == 0)
        rc = mf_fail(MF_EINPUT, "%s: expected results of moefw compare, found none%s%s", folder,
                     b->n_refused > 0 ? "; refused: " : "",
                     b->n_refused > 0 ? b->refused[0] : "");
    for (int i = 0; rc == MF_OK && i < b->n; i++)
        qsort(b->tables[i].rows, (size_t)b->tables[i].n, sizeof *b->tables[i].rows,
              b->tables[i].higher_is_better ? better_last : better_first);
    mf_free(f);
    if (rc == MF_OK)
        *ret = b;
    else
        mf_board_free(b);
    return rc;
}

void mf_board_free(mf_board *b)
{
    if (!b) return;
    mf_arena_free(b->arena);
    mf_free(b);
}
