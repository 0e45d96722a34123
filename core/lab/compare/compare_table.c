/* The table of a comparison: as text for people, as JSON for scripts and the report. Both are
 * made from the same rows, so they agree. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/text/shown.h"
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

static void put_seeds_needed(mf_jw *w, int n)
{
    mf_jw_key(w, "seeds_needed");
    n > 0 ? mf_jw_int(w, n) : mf_jw_null(w);
}

static void put_row(mf_jw *w, const mf_compare_table *t, const mf_compare_row *r)
{
    const mf_compare_router *router = r->router;
    const mf_paired *a = &r->against;
    mf_jw_object(w);
    mf_jw_kv_string(w, "router", router->entry.label);
    mf_jw_kv_bool(w, "baseline", r->baseline);
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
    put_seeds_needed(w, r->seeds_needed);
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
    mf_jw_kv_bool(w, "complete", t->complete);
    const mf_compare_router *first;
    mf_jw_kv_int(w, "lacks", mf_compare_lacks(c, &first));
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

/* ---- text ---- */

static void number(FILE *out, double v, int width, int digits)
{
    if (isnan(v))
        fprintf(out, " %*s", width, "-");
    else
        fprintf(out, " %*.*f", width, digits, v);
}

/* "+0.0123 [-0.0010,+0.0256]" */
static void difference(FILE *out, const mf_estimate *d, int width)
{
    char text[64];
    if (d->n == 0)
        snprintf(text, sizeof text, "-");
    else if (isnan(d->lo))
        snprintf(text, sizeof text, "%+.4f", d->mean);
    else
        snprintf(text, sizeof text, "%+.4f [%+.4f,%+.4f]", d->mean, d->lo, d->hi);
    fprintf(out, "  %-*s", width, text);
}

static int label_width(const mf_compare *c)
{
    size_t width = 6;
    for (int i = 0; i < c->n_routers; i++) {
        const size_t n = strlen(c->routers[i].entry.label);
        if (n > width) width = n;
    }
    return (int)width;
}

static void print_head(const mf_compare_table *t, FILE *out)
{
    const mf_compare *c = t->of;
    const mf_compare_router *base = &c->routers[c->baseline];
    const int64_t steps = base->runs[0].result.steps;
    const mf_compare_router *first;
    const int lacks = mf_compare_lacks(c, &first);
    if (lacks > 0)
        fprintf(out, "INCOMPLETE: %d of %d routers skipped: %s%s, see below\n", lacks,
                c->n_routers, mf_shown(first->entry.label), lacks > 1 ? ", ..." : "");
    static const char *const words[] = {"task loss", "mean squared error", "accuracy",
                                        "loss in bits/byte"};
    fprintf(out, "%s of the validation split, %s is better; %d seed%s, %lld steps",
            words[t->by], t->by == MF_QUALITY_ACCURACY ? "higher" : "lower",
            (int)c->spec->seeds, c->spec->seeds == 1 ? "" : "s",
            (long long)(steps > 0 ? steps : base->steps));
    if (c->spec->equal == MF_EQUAL_PARAMS) fprintf(out, ", equal active parameters");
    if (c->spec->equal == MF_EQUAL_TIME) fprintf(out, " of the baseline, equal training time");
    fprintf(out,
            "\nhalf widths and [brackets]: 95 %%; differences from %s within seeds; p (t test) "
            "and flip (exact, by signs) after Holm over %d\n",
            mf_shown(base->entry.label), t->compared);
}

/* Groups of columns. A terminal that is without space for all of them gets a table of each. */
enum { QUALITY = 1, TEST = 2, ROUTING = 4, ALL_PARTS = 7 };
/* Widths of texts that are aligned left; at the end of a line they are not padded. */
enum { DIFFERENCE = 26, VERDICT = 19, NEEDED = 5 };
/* Columns of the terminal for all groups behind the names, and for what some tables add. */
enum { ALL_COLUMNS = 148, PEARSON = 8, BEYOND_DELTA = 10 };

static void print_titles(const mf_compare_table *t, FILE *out, int width, int parts)
{
    fprintf(out, "\nrank %-*s", width, "router");
    if (parts & QUALITY)
        fprintf(out, " %8s %7s  %-*s", "mean", "+-", parts == QUALITY ? 0 : DIFFERENCE,
                "difference");
    if (parts & TEST)
        fprintf(out, " %6s %6s %6s  %-*s %*s", "p", "flip", "g", VERDICT, "", NEEDED, "seeds");
    if (parts & ROUTING) {
        fprintf(out, " %7s %6s %5s %7s %9s %9s", "load CV", "drops", "NMI", "best", "tokens/s",
                "params");
        if (t->by == MF_QUALITY_MSE) fprintf(out, " %7s", "Pearson");
        if (!isnan(t->of->spec->delta)) fprintf(out, " %9s", "P(>delta)");
    }
    fputc('\n', out);
}

static void print_test(const mf_compare_row *r, FILE *out, bool last)
{
    const mf_paired *a = &r->against;
    if (r->baseline) {
        fprintf(out, " %6s %6s %6s  %-*s", "", "", "", last ? 0 : VERDICT + 1 + NEEDED,
                "baseline");
        return;
    }
    number(out, r->p_holm, 6, 3);
    number(out, r->p_flip_holm, 6, 3);
    number(out, a->g, 6, 2);
    fprintf(out, "  %-*s", VERDICT, mf_verdict_name(r->verdict));
    if (r->seeds_needed > 0)
        fprintf(out, " %*d", NEEDED, r->seeds_needed);
    else
        fprintf(out, " %*s", NEEDED, r->seeds_needed == 0 ? ">1000" : "-");
}

static void print_row(const mf_compare_table *t, const mf_compare_row *r, FILE *out, int width,
                      int parts)
{
    if (r->rank > 0)
        fprintf(out, "%4d %-*s", r->rank, width, mf_shown(r->router->entry.label));
    else
        fprintf(out, "%4s %-*s", "-", width, mf_shown(r->router->entry.label));
    if (parts & QUALITY) {
        number(out, r->quality.mean, 8, 4);
        number(out, r->quality.hi - r->quality.mean, 7, 4);
        const int pad = parts == QUALITY ? 0 : DIFFERENCE;
        if (!r->baseline)
            difference(out, &r->against.diff, pad);
        else if (pad > 0)
            fprintf(out, "  %*s", pad, "");
    }
    if (parts & TEST) print_test(r, out, parts == TEST);
    if (parts & ROUTING) {
        number(out, r->load_cv, 7, 3);
        number(out, r->drop_rate, 6, 3);
        number(out, r->nmi, 5, 3);
        number(out, r->nmi_best, 7, 3);
        number(out, r->tokens_per_s, 9, 0);
        fprintf(out, " %9lld", (long long)r->router->params);
        if (t->by == MF_QUALITY_MSE) number(out, r->pearson, 7, 4);
        if (!isnan(t->of->spec->delta)) number(out, r->p_better, 9, 3);
    }
    fputc('\n', out);
}

static void print_part(const mf_compare_table *t, FILE *out, int width, int parts)
{
    print_titles(t, out, width, parts);
    for (int rank = 1; rank <= t->n; rank++)
        for (int i = 0; i < t->n; i++)
            if (t->rows[i].rank == rank) print_row(t, &t->rows[i], out, width, parts);
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].rank == 0) print_row(t, &t->rows[i], out, width, parts);
}

static void print_faults(const mf_compare_table *t, FILE *out)
{
    const mf_compare *c = t->of;
    for (int i = 0; i < c->n_routers; i++) {
        const mf_compare_router *r = &c->routers[i];
        if (r->refused)
            fprintf(out, "skipped: %s: %s\n", mf_shown(r->entry.label), mf_shown(r->refused));
        for (int32_t s = 0; !r->refused && s < c->spec->seeds; s++)
            if (r->runs[s].state == MF_RUN_FAILED)
                fprintf(out, "failed: %s: %s\n", mf_shown(r->runs[s].name),
                        mf_shown(r->runs[s].reason));
    }
}

/* What looks before this one cost. */
static void print_looks(const mf_compare_table *t, FILE *out)
{
    const mf_compare *c = t->of;
    int earlier = 0;
    for (int i = 0; i < c->n_looks; i++)
        earlier += c->looks[i].pairs != c->spec->seeds;
    if (earlier == 0 && !(c->most > c->spec->seeds)) return;
    fprintf(out, "Verdicts of this look have level %.4g", t->level);
    if (earlier > 0) {
        fprintf(out, ", because the results were shown before with");
        const char *between = "";
        for (int i = 0; i < c->n_looks; i++) {
            if (c->looks[i].pairs == c->spec->seeds) continue;
            fprintf(out, "%s %d", between, c->looks[i].pairs);
            between = ",";
        }
        fprintf(out,
                " seeds; all looks together find a difference in at most %.3g %% of "
                "comparisons of equal routers",
                100 * t->level_total);
    }
    if (c->most > c->spec->seeds)
        fprintf(out, "; %d seeds are planned (--most-seeds)", (int)c->most);
    fprintf(out, ".\n");
}

void mf_compare_print(const mf_compare_table *t, FILE *out, int columns)
{
    const int width = label_width(t->of);
    print_head(t, out);
    const int all = width + ALL_COLUMNS + (t->by == MF_QUALITY_MSE ? PEARSON : 0) +
                    (isnan(t->of->spec->delta) ? 0 : BEYOND_DELTA);
    if (columns == 0 || columns >= all)
        print_part(t, out, width, ALL_PARTS);
    else
        for (int part = QUALITY; part < ALL_PARTS; part *= 2)
            print_part(t, out, width, part);
    fputc('\n', out);
    print_faults(t, out);
    print_looks(t, out);
    if (t->of->spec->seeds < 3)
        fprintf(out, "With fewer than 3 seeds little can be shown: try --seeds 8.\n");
    else if (t->compared > 0)
        fprintf(
            out,
            "seeds: so many show, in 4 of 5 comparisons, what 80 %% confidence leaves of the "
            "difference seen; %d show one of %.1f standard deviations.\n",
            (int)t->of->spec->seeds, t->detectable);
}
