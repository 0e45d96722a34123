/* Writes the table of a comparison as JSON, for scripts and the report. compare_print.c prints
 * the same rows as text for people. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "lab/compare/compare_parts.h"
#include "lab/compare/compare_search.h"

/* ---- JSON ---- */

static void put_range(mf_jw *w, const char *key, double lo, double hi)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    mf_jw_real(w, lo);
    mf_jw_real(w, hi);
    mf_jw_end(w);
}

static void put_runs(mf_jw *w, const mf_compare_table *t, const mf_compare_router *r)
{
    mf_jw_key(w, "runs");
    mf_jw_array(w);
    for (int32_t s = 0; s < t->of->spec->seeds; s++) {
        const mf_compare_run *run = &r->runs[s];
        const mf_run_result *v = &run->result;
        mf_jw_object(w);
        mf_jw_kv_int(w, "seed", run->seed);
        mf_jw_kv_string(w, "dir", run->dir + strlen(t->of->spec->out) + 1);
        if (run->state == MF_RUN_DONE) {
            mf_jw_kv_real(w, "task_loss", v->task_loss);
            if (!isnan(v->bits_per_byte)) mf_jw_kv_real(w, "bits_per_byte", v->bits_per_byte);
            if (t->by == MF_QUALITY_ACCURACY) mf_jw_kv_real(w, "accuracy", v->accuracy);
            if (t->by == MF_QUALITY_MSE) {
                mf_jw_kv_real(w, "mse", v->mse);
                mf_jw_kv_real(w, "pearson", v->pearson);
                mf_jw_kv_real(w, "spearman", v->spearman);
            }
            mf_jw_kv_real(w, "load_cv", v->load_cv);
            mf_jw_kv_real(w, "drop_rate", v->drop_rate);
            mf_jw_kv_real(w, "nmi", v->nmi);
            mf_jw_kv_real(w, "nmi_best", v->nmi_best);
            mf_jw_kv_real(w, "tokens_per_s", v->tokens_per_s);
            mf_jw_kv_real(w, "wall_s", v->wall_s);
        } else if (run->state == MF_RUN_FAILED) {
            mf_jw_kv_string(w, "failed", run->reason);
            mf_jw_kv_int(w, "exit", run->status);
        } else {
            mf_jw_kv_bool(w, "waiting", true);
        }
        mf_jw_end(w);
    }
    mf_jw_end(w);
}

static void put_seeds(mf_jw *w, const char *key, int n)
{
    mf_jw_key(w, key);
    n > 0 ? mf_jw_int(w, n) : mf_jw_null(w);
}

static void put_row(mf_jw *w, const mf_compare_table *t, const mf_compare_row *r)
{
    const mf_compare_router *router = r->router;
    const mf_paired *a = &r->against;
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", router->entry.label);
    mf_jw_kv_bool(w, "baseline", r->baseline);
    mf_jw_kv_string(w, "name", router->name);
    mf_jw_kv_int(w, "params", router->params);
    mf_jw_kv_int(w, "params_active", router->params_active);
    mf_jw_kv_int(w, "params_router", router->params_router);
    mf_jw_kv_int(w, "steps", r->steps > 0 ? r->steps : router->steps);
    mf_jw_kv_int(w, "n", r->quality.n);
    mf_jw_kv_int(w, "failed", r->failed);
    mf_jw_kv_int(w, "diverged", r->diverged);
    mf_jw_kv_real(w, "mean", r->quality.mean);
    mf_jw_kv_real(w, "sd", r->quality.sd);
    put_range(w, "ci95", r->quality.lo, r->quality.hi);
    mf_jw_kv_int(w, "rank", r->rank);
    mf_jw_kv_real(w, "mean_rank", r->mean_rank);
    mf_jw_kv_int(w, "pairs", a->diff.n);
    mf_jw_kv_real(w, "diff", a->diff.mean);
    put_range(w, "diff_ci95", a->diff.lo, a->diff.hi);
    mf_jw_kv_real(w, "t", a->t);
    mf_jw_kv_real(w, "p", a->p);
    mf_jw_kv_real(w, "p_holm", r->baseline ? a->p : r->p_holm);
    mf_jw_kv_real(w, "p_flip", r->baseline ? (double)NAN : r->p_flip);
    mf_jw_kv_real(w, "p_flip_holm", r->p_flip_holm);
    if (!isnan(t->of->spec->delta)) mf_jw_kv_real(w, "p_better", r->p_better);
    mf_jw_kv_real(w, "effect_dz", a->dz);
    mf_jw_kv_real(w, "effect_g", a->g);
    mf_jw_kv_string(w, "verdict", mf_verdict_name(r->verdict));
    put_seeds(w, "seeds_needed", r->seeds_needed);
    if (!isnan(t->margin)) {
        mf_jw_kv_string(w, "difference", mf_verdict_name(r->differs));
        mf_jw_kv_real(w, "p_equal", r->baseline ? (double)NAN : r->sides.equal);
        mf_jw_kv_real(w, "p_margin", r->p_margin);
        mf_jw_kv_real(w, "p_margin_holm", r->p_margin_holm);
        put_range(w, "equal_range", r->equal_lo, r->equal_hi);
        put_seeds(w, "seeds_equal", r->seeds_equal);
    }
    mf_jw_kv_real(w, "load_cv", r->load_cv);
    mf_jw_kv_real(w, "drop_rate", r->drop_rate);
    mf_jw_kv_real(w, "nmi", r->nmi);
    mf_jw_kv_real(w, "nmi_best", r->nmi_best);
    mf_jw_kv_real(w, "tokens_per_s", r->tokens_per_s);
    mf_jw_kv_real(w, "wall_s", r->wall_s);
    if (t->by == MF_QUALITY_MSE) mf_jw_kv_real(w, "pearson", r->pearson);
    put_runs(w, t, router);
    mf_jw_end(w);
}

void mf_compare_json(mf_jw *w, const mf_compare_table *t)
{
    const mf_compare *c = t->of;
    const mf_compare_router *base = &c->routers[c->baseline];
    mf_jw_object(w);
    mf_jw_kv_string(w, "metric", mf_quality_name(t->by));
    mf_jw_kv_string(w, "split", "val");
    mf_jw_kv_bool(w, "higher_is_better", t->by == MF_QUALITY_ACCURACY);
    mf_jw_kv_string(w, "baseline", base->entry.label);
    mf_jw_kv_int(w, "seeds", c->spec->seeds);
    mf_jw_kv_int(w, "steps",
                 base->runs[0].result.steps > 0 ? base->runs[0].result.steps : base->steps);
    mf_jw_kv_string(w, "equal", mf_equal_names[c->spec->equal]);
    mf_jw_kv_int(w, "compared", t->compared);
    mf_jw_kv_real(w, "detectable_dz", t->detectable);
    mf_jw_kv_real(w, "level", t->level);
    mf_jw_kv_real(w, "level_all_looks", t->level_total);
    mf_jw_key(w, "earlier_looks");
    mf_jw_array(w);
    for (int i = 0; i < c->n_looks; i++)
        if (c->looks[i].pairs != c->spec->seeds) mf_jw_int(w, c->looks[i].pairs);
    mf_jw_end(w);
    if (c->most > 0) mf_jw_kv_int(w, "most_seeds", c->most);
    if (!isnan(c->spec->delta)) mf_jw_kv_real(w, "delta", c->spec->delta);
    if (c->margin.value > 0) {
        char given[MF_MARGIN_TEXT];
        mf_jw_kv_string(w, "equivalent", mf_margin_text(c->margin, given));
        mf_jw_kv_real(w, "margin", t->margin);
    }
    mf_jw_kv_bool(w, "complete", t->complete);
    const mf_compare_router *first;
    mf_jw_kv_int(w, "lacks", mf_compare_lacks(c, &first));
    if (first) mf_jw_kv_string(w, "lacks_first", first->entry.label);
    mf_jw_kv_string(w, "out", c->spec->out);
    mf_jw_key(w, "rows");
    mf_jw_array(w);
    for (int i = 0; i < t->n; i++)
        put_row(w, t, &t->rows[i]);
    mf_jw_end(w);
    mf_jw_key(w, "skipped");
    mf_jw_array(w);
    for (int i = 0; i < c->n_routers; i++) {
        if (!c->routers[i].refused) continue;
        mf_jw_object(w);
        mf_jw_kv_string(w, "router", c->routers[i].entry.label);
        mf_jw_kv_string(w, "reason", c->routers[i].refused);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    if (c->spec->search) {
        mf_jw_key(w, "search");
        mf_search_put(w, c->spec->search);
    }
    mf_jw_end(w);
}

int mf_compare_write(const mf_compare_table *t)
{
    mf_jw *w = mf_jw_new();
    char *path = mf_path_join(t->of->spec->out, "comparison.json");
    size_t n = 0;
    const char *text = NULL;
    if (w) {
        mf_compare_json(w, t);
        text = mf_jw_text(w, &n);
    }
    int rc = text && path ? mf_write_file_atomic(path, text, n) : MF_ENOMEM;
    mf_jw_free(w);
    mf_free(path);
    return rc;
}
