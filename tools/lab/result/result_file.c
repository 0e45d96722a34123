/* Writes and reads result.json, and computes the table of a comparison again from its
 * runs, with the same functions that made it. */
#include <ctype.h>
#include <gnu/libc-version.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/result/result_parts.h"
#include <moefw/version.h>

#define FORMAT "moefw-result"
static const char self_mark[] = "\"self\":\"";

/* ---- writing ---- */

static void put_head(mf_jw *w, const char *kind)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "format", FORMAT);
    mf_jw_kv_int(w, "version", 1);
    mf_jw_kv_string(w, "kind", kind);
    mf_jw_key(w, "program");
    mf_jw_object(w);
    mf_jw_kv_string(w, "version", MOEFW_VERSION);
    mf_jw_kv_string(w, "compiler", __VERSION__);
    mf_jw_kv_string(w, "libc", gnu_get_libc_version());
    mf_jw_end(w);
}

/* Replaces the empty "self" at the end by the hash of the text. */
static int write_text(mf_jw *w, const char *out)
{
    char sha[MF_SHA256_HEX];
    size_t n;
    mf_jw_kv_string(w, "self", "");
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    if (!text) return MF_ENOMEM;
    mf_sha256_hex(text, n, sha);
    char *whole = mf_strf("%.*s%s\"}\n", (int)n - 2, text, sha);
    const int rc = whole ? mf_write_file_atomic(out, whole, strlen(whole)) : MF_ENOMEM;
    mf_free(whole);
    return rc;
}

int mf_result_write_run(const char *run, const char *out)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    put_head(w, "run");
    mf_jw_key(w, "runs");
    mf_jw_array(w);
    int rc = mf_result_put_run(w, run, "");
    mf_jw_end(w);
    if (rc == MF_OK) rc = write_text(w, out);
    mf_jw_free(w);
    return rc;
}

static void put_row(mf_jw *w, const mf_compare_table *t, const mf_compare_row *r)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", r->router->entry.label);
    mf_jw_kv_int(w, "n", r->quality.n);
    mf_jw_kv_int(w, "diverged", r->diverged);
    mf_jw_kv_real(w, "mean", r->quality.mean);
    mf_jw_kv_real(w, "sd", r->quality.sd);
    mf_jw_kv_real(w, "diff", r->against.diff.mean);
    mf_jw_kv_real(w, "diff_lo", r->against.diff.lo);
    mf_jw_kv_real(w, "diff_hi", r->against.diff.hi);
    mf_jw_kv_real(w, "p_holm", r->p_holm);
    if (!isnan(t->margin)) mf_jw_kv_real(w, "p_margin_holm", r->p_margin_holm);
    mf_jw_kv_string(w, "verdict", mf_verdict_name(r->verdict));
    mf_jw_end(w);
}

static void put_table(mf_jw *w, const mf_compare_table *t)
{
    const mf_compare *c = t->of;
    char margin[MF_MARGIN_TEXT];
    mf_jw_object(w);
    mf_jw_kv_string(w, "metric", mf_quality_name(t->by));
    mf_jw_kv_string(w, "task", mf_quality_name(c->by));
    mf_jw_kv_string(w, "baseline", c->routers[c->baseline].entry.label);
    mf_jw_kv_string(w, "equal", mf_equal_names[c->spec->equal]);
    mf_jw_kv_int(w, "seeds", c->spec->seeds);
    mf_jw_kv_int(w, "most_seeds", c->most);
    if (c->margin.value > 0)
        mf_jw_kv_string(w, "equivalent", mf_margin_text(c->margin, margin));
    mf_jw_key(w, "looks");
    mf_jw_array(w);
    for (int i = 0; i < c->n_looks; i++) {
        mf_jw_array(w);
        mf_jw_int(w, c->looks[i].pairs);
        mf_jw_real(w, c->looks[i].level);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_key(w, "rows");
    mf_jw_array(w);
    for (int i = 0; i < t->n; i++)
        put_row(w, t, &t->rows[i]);
    mf_jw_end(w);
    mf_jw_end(w);
}

static int put_runs(mf_jw *w, const mf_compare *c)
{
    int rc = MF_OK;
    mf_jw_key(w, "runs");
    mf_jw_array(w);
    for (int i = 0; i < c->n_routers; i++)
        for (int s = 0; s < c->spec->seeds && !c->routers[i].refused && rc == MF_OK; s++) {
            const mf_compare_run *run = &c->routers[i].runs[s];
            if (run->state == MF_RUN_DONE) {
                rc = mf_result_put_run(w, run->dir, c->routers[i].entry.label);
            } else if (run->state == MF_RUN_FAILED) {
                mf_jw_object(w);
                mf_jw_kv_string(w, "router", c->routers[i].entry.label);
                mf_jw_kv_int(w, "seed", run->seed);
                mf_jw_kv_int(w, "failed", run->status);
                mf_jw_end(w);
            }
        }
    mf_jw_end(w);
    return rc;
}

int mf_result_write_comparison(const mf_compare_table *t, const char *out)
{
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    put_head(w, "compare");
    int rc = put_runs(w, t->of);
    mf_jw_key(w, "table");
    put_table(w, t);
    if (rc == MF_OK) rc = write_text(w, out);
    mf_jw_free(w);
    return rc;
}

/* ---- reading ---- */

const char *mf_result_text(const mf_json *v, const char *key)
{
    const char *text = mf_json_string(mf_json_get(v, key), NULL);
    return text ? text : "";
}

/* Whether the text ends with the hash of itself with an empty "self". */
static bool self_is_right(char *text, size_t n, char self[MF_SHA256_HEX])
{
    const size_t mark = sizeof self_mark - 1, hex = MF_SHA256_HEX - 1;
    char sha[MF_SHA256_HEX];
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    if (n < mark + hex + 2 || memcmp(text + n - 2, "\"}", 2) != 0) return false;
    char *at = text + n - 2 - hex;
    if (memcmp(at - mark, self_mark, mark) != 0) return false;
    memcpy(self, at, hex);
    self[hex] = '\0';
    memcpy(at, "\"}", 2);
    mf_sha256_hex(text, (size_t)(at + 2 - text), sha);
    return strcmp(sha, self) == 0;
}

static int take(const char *path, const char *text, size_t n, mf_result *r)
{
    const int rc = mf_json_parse(path, text, n, &r->json);
    if (rc != MF_OK) return rc;
    const char *format = mf_json_string(mf_json_get(r->json, "format"), NULL);
    if (!format || strcmp(format, FORMAT) != 0)
        return mf_fail(MF_EINPUT,
                       "%s: expected \"format\":\"" FORMAT "\", which moefw compare writes as "
                       "result.json, and moefw export result; found %s",
                       path, format ? format : "none");
    if (mf_json_int_or_0(r->json, "version") != 1)
        return mf_fail(MF_EINPUT, "%s: version: expected 1, found %lld", path,
                       (long long)mf_json_int_or_0(r->json, "version"));
    r->runs = mf_json_get(r->json, "runs");
    r->table = mf_json_get(r->json, "table");
    if (mf_json_typeof(r->runs) != MF_JSON_ARRAY || mf_json_size(r->runs) == 0)
        return mf_fail(MF_EINPUT, "%s: expected runs, found none", path);
    return MF_OK;
}

int mf_result_read(const char *path, mf_result **ret)
{
    char *text = NULL;
    size_t n;
    mf_result *r = mf_alloc(1, sizeof *r);
    *ret = NULL;
    if (!r) return MF_ENOMEM;
    int rc = mf_read_file(path, MF_JSON_SIZE_MAX, &text, &n);
    if (rc == MF_OK) rc = take(path, text, n, r);
    if (rc == MF_OK && !self_is_right(text, n, r->self))
        rc = mf_fail(MF_EINPUT,
                     "%s: \"self\": expected the SHA-256 of the text at its end; the file was "
                     "changed after it had been written",
                     path);
    mf_free(text);
    if (rc == MF_OK)
        *ret = r;
    else
        mf_result_free(r);
    return rc;
}

bool mf_result_same_program(const mf_result *r)
{
    const mf_json *p = mf_json_get(r->json, "program");
    return strcmp(mf_result_text(p, "version"), MOEFW_VERSION) == 0 &&
           strcmp(mf_result_text(p, "compiler"), __VERSION__) == 0 &&
           strcmp(mf_result_text(p, "libc"), gnu_get_libc_version()) == 0;
}

void mf_result_free(mf_result *r)
{
    if (!r) return;
    mf_json_free(r->json);
    mf_free(r);
}

/* ---- the table ---- */

/* Fills the results of the runs of one router, in the order of their seeds in the file. */
static int take_runs(const mf_result *r, mf_compare_router *router, int32_t seeds)
{
    int n = 0;
    for (size_t i = 0; i < mf_json_size(r->runs); i++) {
        const mf_json *v = mf_json_at(r->runs, i), *last = mf_json_get(v, "final");
        if (strcmp(mf_result_text(v, "router"), router->entry.label) != 0) continue;
        if (n == seeds)
            return mf_fail(MF_ERUN, "router %s: more runs than %d seeds", router->entry.label,
                           (int)seeds);
        mf_compare_run *run = &router->runs[n++];
        run->seed = mf_json_int_or_0(v, "seed");
        run->status = (int)mf_json_int_or_0(v, "failed");
        run->state = run->status != 0 ? MF_RUN_FAILED : MF_RUN_DONE;
        run->result =
            (mf_run_result){.task_loss = mf_json_real_or_nan(last, "task_loss"),
                            .bits_per_byte = mf_json_real_or_nan(last, "bits_per_byte"),
                            .accuracy = mf_json_real_or_nan(last, "accuracy"),
                            .mse = mf_json_real_or_nan(last, "mse")};
    }
    if (n != seeds)
        return mf_fail(MF_ERUN, "router %s: expected %d runs, found %d", router->entry.label,
                       (int)seeds, n);
    for (int i = 1; i < n; i++)
        if (router->runs[i].seed != router->runs[0].seed + i)
            return mf_fail(
                MF_ERUN,
                "router %s: expected seeds that follow one another, found %lld after %lld",
                router->entry.label, (long long)router->runs[i].seed,
                (long long)router->runs[i - 1].seed);
    return MF_OK;
}

static int differs(const char *router, const char *key, double file, double here)
{
    if (file == here || (isnan(file) && !isfinite(here))) return MF_OK;
    return mf_fail(MF_ERUN, "router %s: %s: the file says %.9g, its runs give %.9g", router,
                   key, file, here);
}

static int check_row(const mf_json *row, const mf_compare_row *r)
{
    const char *label = r->router->entry.label;
    const struct {
        const char *key;
        double here;
    } values[] = {{"n", r->quality.n},
                  {"diverged", r->diverged},
                  {"mean", r->quality.mean},
                  {"sd", r->quality.sd},
                  {"diff", r->against.diff.mean},
                  {"diff_lo", r->against.diff.lo},
                  {"diff_hi", r->against.diff.hi},
                  {"p_holm", r->p_holm},
                  {"p_margin_holm", r->p_margin_holm}};
    int rc = MF_OK;
    for (size_t i = 0; rc == MF_OK && i < sizeof values / sizeof *values; i++)
        rc = differs(label, values[i].key, mf_json_real_or_nan(row, values[i].key),
                     values[i].here);
    if (rc == MF_OK && strcmp(mf_result_text(row, "verdict"), mf_verdict_name(r->verdict)) != 0)
        rc = mf_fail(MF_ERUN, "router %s: the file says %s, its runs give %s", label,
                     mf_result_text(row, "verdict"), mf_verdict_name(r->verdict));
    return rc;
}

/* The metric, the margin and the looks of a table. */
static int take_plan(const mf_json *table, mf_compare *c)
{
    const mf_json *looks = mf_json_get(table, "looks");
    const char *margin = mf_json_string(mf_json_get(table, "equivalent"), NULL);
    double level = 0;
    c->by = MF_QUALITY_LOSS;
    for (int i = 0; i <= MF_QUALITY_BITS; i++)
        if (strcmp(mf_result_text(table, "task"), mf_quality_name((mf_quality)i)) == 0)
            c->by = (mf_quality)i;
    c->most = (int32_t)mf_json_int_or_0(table, "most_seeds");
    for (size_t i = 0; i < mf_json_size(looks) && c->n_looks < MF_LOOKS_MAX; i++) {
        const mf_json *look = mf_json_at(looks, i);
        int64_t pairs;
        if (!mf_json_int(mf_json_at(look, 0), &pairs) ||
            !mf_json_real(mf_json_at(look, 1), &c->looks[c->n_looks].level))
            return mf_fail(MF_EINPUT, "looks: expected a number of seeds and a level each");
        c->looks[c->n_looks++].pairs = (int)pairs;
        level += c->looks[c->n_looks - 1].level;
    }
    if (!(level >= 0 && level < 0.1))
        return mf_fail(MF_EINPUT, "looks: expected levels with a sum below .1, found %g",
                       level);
    return margin ? mf_margin_read(margin, &c->margin) : MF_OK;
}

static int judge(const mf_result *r, mf_compare *c, int *ret_tests)
{
    const mf_json *rows = mf_json_get(r->table, "rows");
    mf_compare_table *t = NULL;
    int rc = mf_compare_judge(c, &t);
    for (int i = 0; rc == MF_OK && i < t->n; i++)
        rc = check_row(mf_json_at(rows, (size_t)i), &t->rows[i]);
    if (rc == MF_OK) *ret_tests = t->compared;
    mf_compare_table_free(t);
    return rc;
}

int mf_result_check_table(const mf_result *r, int *ret_tests)
{
    const mf_json *rows = mf_json_get(r->table, "rows");
    const size_t n = mf_json_size(rows);
    mf_compare_spec spec = {.seeds = (int32_t)mf_json_int_or_0(r->table, "seeds"),
                            .delta = (double)NAN};
    mf_compare c = {.spec = &spec, .n_routers = (int)n};
    *ret_tests = 0;
    if (!r->table) return MF_OK;
    if (n == 0 || spec.seeds < 1 || spec.seeds > MF_SEEDS_MAX)
        return mf_fail(MF_EINPUT, "table: expected rows, and 1 to %d seeds", MF_SEEDS_MAX);
    if (n * (size_t)spec.seeds != mf_json_size(r->runs))
        return mf_fail(MF_ERUN, "%zu routers and %d seeds: expected %zu runs, found %zu", n,
                       (int)spec.seeds, n * (size_t)spec.seeds, mf_json_size(r->runs));
    mf_arena *arena = mf_arena_new();
    c.routers = arena ? mf_arena_alloc(arena, n * sizeof *c.routers) : NULL;
    int rc = c.routers ? take_plan(r->table, &c) : MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < n; i++) {
        mf_compare_router *router = &c.routers[i];
        *router = (mf_compare_router){0};
        router->entry.label = router->name = mf_result_text(mf_json_at(rows, i), "router");
        router->runs = mf_arena_alloc(arena, (size_t)spec.seeds * sizeof *router->runs);
        if (strcmp(router->entry.label, mf_result_text(r->table, "baseline")) == 0)
            c.baseline = (int)i;
        rc = router->runs ? take_runs(r, router, spec.seeds) : MF_ENOMEM;
    }
    if (rc == MF_OK) rc = judge(r, &c, ret_tests);
    mf_arena_free(arena);
    return rc;
}
