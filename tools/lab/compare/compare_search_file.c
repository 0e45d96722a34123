/* search.json: the plan of a search, its trials and its winners. This file writes them, also as
 * text for people. Only the plan is read back: trials and choices follow from the plan and from
 * the runs on disk. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/text/shown.h"
#include "lab/compare/compare_parts.h"
#include "lab/compare/compare_search.h"

/* ---- writing ---- */

static void put_list(mf_jw *w, const char *key, int n, const char *const *text)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int i = 0; i < n; i++)
        mf_jw_string(w, text[i]);
    mf_jw_end(w);
}

static void put_trial(mf_jw *w, const mf_search *s, const mf_rung *r, const mf_trial *t)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", s->routers[t->router].label);
    mf_jw_kv_int(w, "trial", t->trial + 1);
    mf_jw_kv_string(w, "settings", s->settings[t->trial]);
    if (r->done) {
        mf_jw_kv_int(w, "n", t->n);
        mf_jw_kv_int(w, "failed", t->failed);
        mf_jw_kv_real(w, "mean", t->mean);
        mf_jw_kv_bool(w, "kept", t->kept);
    }
    mf_jw_end(w);
}

static void put_rungs(mf_jw *w, const mf_search *s)
{
    mf_jw_key(w, "rungs");
    mf_jw_array(w);
    for (int i = 0; i < s->n_rungs && s->rungs[i].n > 0; i++) {
        const mf_rung *r = &s->rungs[i];
        mf_jw_object(w);
        if (r->steps > 0) mf_jw_kv_int(w, "steps", r->steps);
        if (r->done) mf_jw_kv_string(w, "metric", mf_quality_name(r->by));
        mf_jw_key(w, "trials");
        mf_jw_array(w);
        for (int j = 0; j < r->n; j++)
            put_trial(w, s, r, &r->trials[j]);
        mf_jw_end(w);
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static int runs_of(const mf_search *s)
{
    int n = 0;
    for (int i = 0; i < s->n_rungs; i++)
        n += s->rungs[i].n * (int)s->spec->trial_seeds;
    return n;
}

void mf_search_put(mf_jw *w, const mf_search *s)
{
    const mf_space *space = &s->spec->space;
    mf_jw_object(w);
    mf_jw_key(w, "plan");
    mf_compare_spec plan = *s->of;
    plan.routers = plan.routers ? plan.routers : s->baseline;
    mf_jw_object(w);
    mf_compare_plan_put(w, &plan, s->baseline);
    mf_jw_end(w);
    put_list(w, "grid", space->n_grid, space->grid);
    put_list(w, "draw", space->n_draw, space->draw);
    mf_jw_kv_int(w, "budget", space->budget);
    mf_jw_kv_bool(w, "halving", s->spec->halving);
    mf_jw_kv_int(w, "trial_seeds", s->spec->trial_seeds);
    mf_jw_kv_int(w, "tried", s->n_settings);
    mf_jw_kv_int(w, "runs", runs_of(s));
    put_rungs(w, s);
    if (s->final.routers) {
        mf_jw_kv_string(w, "winners", s->final.routers);
        mf_jw_kv_int(w, "fresh_seeds_after", s->final.skip_seeds);
    }
    mf_jw_end(w);
}

/* ---- reading ---- */

static int take_list(mf_arena *arena, const mf_json *list, const char *const **ret, int *ret_n)
{
    const size_t n = mf_json_typeof(list) == MF_JSON_ARRAY ? mf_json_size(list) : 0;
    const char **text = mf_arena_alloc(arena, (n + 1) * sizeof *text);
    if (!text) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *one = mf_json_string(mf_json_at(list, i), NULL);
        if (!one) return MF_EINPUT;
        text[i] = mf_arena_strdup(arena, one);
        if (!text[i]) return MF_ENOMEM;
    }
    *ret = text;
    *ret_n = (int)n;
    return MF_OK;
}

static int take(mf_arena *arena, const mf_json *doc, mf_compare_spec *of, mf_search_spec *s)
{
    int64_t budget, seeds;
    int rc = mf_compare_plan_take(arena, mf_json_get(doc, "plan"), of);
    if (rc == MF_OK)
        rc = take_list(arena, mf_json_get(doc, "grid"), &s->space.grid, &s->space.n_grid);
    if (rc == MF_OK)
        rc = take_list(arena, mf_json_get(doc, "draw"), &s->space.draw, &s->space.n_draw);
    if (rc != MF_OK) return rc;
    const mf_json *halving = mf_json_get(doc, "halving");
    if (!mf_json_int(mf_json_get(doc, "budget"), &budget) || budget < 0 ||
        budget > MF_TRIALS_MAX || !mf_json_int(mf_json_get(doc, "trial_seeds"), &seeds) ||
        seeds < 1 || seeds > MF_SEEDS_MAX || !mf_json_bool(halving, &s->halving))
        return MF_EINPUT;
    s->space.budget = (int32_t)budget;
    s->trial_seeds = (int32_t)seeds;
    return MF_OK;
}

bool mf_search_is(const char *path)
{
    char *file = mf_is_dir(path) ? mf_path_join(path, "search.json") : NULL;
    const bool is = file && mf_exists(file);
    mf_free(file);
    return is;
}

int mf_search_plan_read(mf_arena *arena, const char *out, mf_compare_spec *ret,
                        mf_search_spec *ret_search)
{
    char *path = mf_path_join(out, "search.json"), *text = NULL;
    mf_json *doc = NULL;
    size_t n;
    if (!path) return MF_ENOMEM;
    int rc = mf_read_file(path, 64 << 20, &text, &n);
    if (rc == MF_OK) rc = mf_json_parse(path, text, n, &doc);
    if (rc == MF_OK) {
        rc = take(arena, doc, ret, ret_search);
        if (rc == MF_EINPUT)
            rc = mf_fail(rc, "%s: expected plan, grid, draw, budget, halving and trial_seeds",
                         path);
        mf_json_free(doc);
    }
    mf_free(text);
    mf_free(path);
    return rc;
}

/* ---- text ---- */

void mf_search_print(const mf_search *s, FILE *out)
{
    const int seeds = (int)s->spec->trial_seeds;
    fprintf(out, "Tried: %d settings of %d router%s, %d run%s in all\n", s->n_settings,
            s->n_routers, s->n_routers == 1 ? "" : "s", runs_of(s), runs_of(s) == 1 ? "" : "s");
    for (int i = 0; i < s->n_rungs; i++) {
        const mf_rung *r = &s->rungs[i];
        if (s->n_rungs > 1)
            fprintf(out, "rung %d, %lld steps, %s, mean over %d seed%s\n", i + 1,
                    (long long)r->steps, mf_quality_name(r->by), seeds, seeds == 1 ? "" : "s");
        else
            fprintf(out, "%s, mean over %d seed%s\n", mf_quality_name(r->by), seeds,
                    seeds == 1 ? "" : "s");
        for (int j = 0; j < r->n; j++) {
            const mf_trial *t = &r->trials[j];
            const char *mark = !t->kept ? " " : i + 1 < s->n_rungs ? "+" : "*";
            if (isnan(t->mean))
                fprintf(out, "%s   failed  %s\n", mark, mf_shown(t->label));
            else
                fprintf(out, "%s %8.4f  %s%s\n", mark, t->mean, mf_shown(t->label),
                        t->failed > 0 ? " (with failed runs)" : "");
        }
    }
    fprintf(out,
            "The best of many trials looks better than it is. So the winners (*) ran again, "
            "with new\nseeds; the result is:\n\n");
}
