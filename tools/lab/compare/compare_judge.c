/* Computes verdicts about routers from the results of their runs. Differences are always taken
 * between runs of the same seed. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "lab/compare/compare_parts.h"

#define POWER      0.8
#define CONFIDENCE 0.8 /* confidence of the effect from which numbers of seeds are planned */
#define MOST_SEEDS 1000

const char *mf_verdict_name(mf_verdict v)
{
    static const char *const names[] = {"no difference shown", "better", "worse",
                                        "not compared",        "equal",  "not shown"};
    return names[v];
}

/* Whether no run of the router has a result or will have a result. */
static bool all_failed(const mf_compare *c, const mf_compare_router *r)
{
    for (int32_t s = 0; s < c->spec->seeds; s++)
        if (r->runs[s].state != MF_RUN_FAILED) return false;
    return true;
}

int mf_compare_lacks(const mf_compare *c, const mf_compare_router **ret_first)
{
    int n = 0;
    *ret_first = NULL;
    for (int i = 0; i < c->n_routers; i++) {
        const mf_compare_router *r = &c->routers[i];
        if (!r->refused && !all_failed(c, r)) continue;
        if (r->refused && r->entry.general && r->refused_as != MF_EPLUGIN &&
            r->refused_as != MF_ENONFINITE)
            continue;
        n++;
        if (!*ret_first || (r->refused && !(*ret_first)->refused)) *ret_first = r;
    }
    return n;
}

/* ---- values ---- */

const char *mf_quality_name(mf_quality q)
{
    static const char *const names[] = {"task_loss", "mse", "accuracy", "bits_per_byte"};
    return names[q];
}

static double value_of(const mf_run_result *r, mf_quality by)
{
    return by == MF_QUALITY_ACCURACY ? r->accuracy
           : by == MF_QUALITY_MSE    ? r->mse
           : by == MF_QUALITY_BITS   ? r->bits_per_byte
                                     : r->task_loss;
}

/* Whether losses per token are not comparable, and bits per byte replace them: the runs have
 * different numbers of bytes per token, and all losses are known in bits per byte. *ret_ratio:
 * task loss / bits per byte; NaN if it is not known, or not equal in all runs. */
static bool tokens_differ(const mf_compare *c, double *ret_ratio)
{
    double first = *ret_ratio = (double)NAN;
    bool differ = false;
    for (int i = 0; i < c->n_routers; i++)
        for (int32_t s = 0; s < c->spec->seeds; s++) {
            const mf_compare_run *run = &c->routers[i].runs[s];
            if (run->state != MF_RUN_DONE) continue;
            const double ratio = run->result.task_loss / run->result.bits_per_byte;
            if (isnan(ratio)) return false;
            if (isnan(first)) first = ratio;
            differ = differ || fabs(ratio - first) > 1e-6 * first;
        }
    if (!differ) *ret_ratio = first;
    return differ;
}

static mf_quality by_what(const mf_compare *c, double *ret_ratio)
{
    if (tokens_differ(c, ret_ratio) && c->by == MF_QUALITY_LOSS) return MF_QUALITY_BITS;
    for (int i = 0; i < c->n_routers; i++)
        for (int32_t s = 0; s < c->spec->seeds; s++) {
            const mf_compare_run *run = &c->routers[i].runs[s];
            if (run->state == MF_RUN_DONE && isnan(value_of(&run->result, c->by)))
                return MF_QUALITY_LOSS;
        }
    return c->by;
}

/* Quality of a router's runs by seed; NaN for a run without a result. */
static void qualities(const mf_compare *c, mf_quality by, const mf_compare_router *r,
                      double *ret)
{
    for (int32_t s = 0; s < c->spec->seeds; s++) {
        const mf_compare_run *run = &r->runs[s];
        ret[s] = run->state != MF_RUN_DONE ? (double)NAN : value_of(&run->result, by);
    }
}

static void means(const mf_compare *c, mf_compare_row *row)
{
    double *const out[] = {&row->load_cv,      &row->drop_rate, &row->nmi,    &row->nmi_best,
                           &row->tokens_per_s, &row->wall_s,    &row->pearson};
    int n = 0;
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        *out[i] = 0;
    for (int32_t s = 0; s < c->spec->seeds; s++) {
        const mf_compare_run *run = &row->router->runs[s];
        const mf_run_result *v = &run->result;
        if (run->state == MF_RUN_FAILED) {
            row->failed++;
            row->diverged += run->status == mf_status_exit(MF_ENONFINITE);
        }
        if (run->state != MF_RUN_DONE) continue;
        const double in[] = {v->load_cv,      v->drop_rate, v->nmi,    v->nmi_best,
                             v->tokens_per_s, v->wall_s,    v->pearson};
        for (size_t i = 0; i < sizeof out / sizeof *out; i++)
            *out[i] += in[i];
        row->steps = v->steps;
        n++;
    }
    for (size_t i = 0; i < sizeof out / sizeof *out; i++)
        *out[i] /= n > 0 ? n : (double)NAN;
}

/* ---- ranks ---- */

/* 1 + the number of better values + half of the number of equal values. */
static double rank_among(const double *x, int n, int i, bool more_is_better)
{
    double rank = 1;
    for (int j = 0; j < n; j++) {
        if (j == i || isnan(x[j])) continue;
        if (x[j] == x[i])
            rank += 0.5;
        else if ((x[j] > x[i]) == more_is_better)
            rank += 1;
    }
    return rank;
}

static void rank_rows(mf_compare_table *t, const double *values, double *column, bool accuracy)
{
    const int seeds = t->of->spec->seeds;
    int whole = 0;
    for (int i = 0; i < t->n; i++)
        column[i] = t->rows[i].quality.mean;
    for (int i = 0; i < t->n; i++)
        if (!isnan(column[i])) {
            t->rows[i].rank = 1;
            for (int j = 0; j < t->n; j++)
                t->rows[i].rank += accuracy ? column[j] > column[i] : column[j] < column[i];
        }
    for (int s = 0; s < seeds; s++) {
        bool all = true;
        for (int i = 0; i < t->n; i++) {
            column[i] = values[i * seeds + s];
            all = all && !isnan(column[i]);
        }
        for (int i = 0; all && i < t->n; i++)
            t->rows[i].mean_rank += rank_among(column, t->n, i, accuracy);
        whole += all;
    }
    for (int i = 0; i < t->n; i++)
        t->rows[i].mean_rank /= whole > 0 ? whole : (double)NAN;
}

/* ---- verdicts ---- */

static int seeds_needed(const mf_compare_row *row, double level)
{
    if (row->baseline || isnan(row->against.t) || row->against.t == 0) return -1;
    const double effect = mf_t_safe_effect(row->against.t, row->against.diff.n, CONFIDENCE);
    return mf_t_pairs(effect, level, POWER, MOST_SEEDS);
}

static void give_verdicts(mf_compare_table *t, double *p, double *holm, bool accuracy)
{
    for (int i = 0; i < t->n; i++) {
        p[i] = t->rows[i].baseline ? (double)NAN : t->rows[i].against.p;
        t->compared += !isnan(p[i]);
    }
    mf_holm(p, t->n, holm);
    for (int i = 0; i < t->n; i++)
        t->rows[i].p_holm = holm[i];
    for (int i = 0; i < t->n; i++)
        p[i] = t->rows[i].baseline ? (double)NAN : t->rows[i].p_flip;
    mf_holm(p, t->n, holm);
    /* The level of the first step of Holm's correction, with which the smallest p
     * is compared. */
    const double level = t->level / (t->compared > 0 ? t->compared : 1);
    t->detectable = mf_t_detectable(t->of->spec->seeds, level, POWER);
    for (int i = 0; i < t->n; i++) {
        mf_compare_row *row = &t->rows[i];
        row->p_flip_holm = holm[i];
        row->seeds_needed = seeds_needed(row, level);
        if (!row->baseline && row->against.diff.n == 0) row->verdict = MF_VERDICT_UNKNOWN;
        if (!(row->p_holm < t->level) || row->against.diff.n < MF_VERDICT_SEEDS) continue;
        const bool better = (row->against.diff.mean > 0) == accuracy;
        if (!better || row->diverged == 0)
            row->verdict = better ? MF_VERDICT_BETTER : MF_VERDICT_WORSE;
    }
    mf_compare_margin_judge(t, p, holm, accuracy);
}

/* ---- the table ---- */

static void fill(mf_compare_table *t, double *values, double *one, double *two)
{
    const bool accuracy = t->by == MF_QUALITY_ACCURACY;
    const mf_compare *c = t->of;
    const int seeds = c->spec->seeds;
    const double *base = NULL;
    t->complete = true;
    for (int i = 0; i < c->n_routers; i++) {
        const mf_compare_router *r = &c->routers[i];
        if (r->refused) continue;
        double *mine = values + t->n * seeds;
        qualities(c, t->by, r, mine);
        if (i == c->baseline) base = mine;
        t->rows[t->n] = (mf_compare_row){
            .router = r, .baseline = i == c->baseline, .quality = mf_estimate_of(mine, seeds)};
        means(c, &t->rows[t->n]);
        for (int s = 0; s < seeds; s++)
            if (r->runs[s].state != MF_RUN_DONE && r->runs[s].state != MF_RUN_FAILED)
                t->complete = false;
        t->n++;
    }
    /* If the baseline was refused in its first run, there are no pairs to compare. */
    for (int i = 0; i < t->n; i++) {
        mf_compare_row *row = &t->rows[i];
        const double *mine = values + i * seeds;
        row->against = mf_paired_of(mine, base ? base : mine, base ? seeds : 0);
        row->p_flip = mf_sign_flip(mine, base ? base : mine, base ? seeds : 0);
        row->p_better =
            row->baseline ? (double)NAN
                          : mf_probability_better(&row->against.diff, c->spec->delta, accuracy);
    }
    rank_rows(t, values, one, accuracy);
    give_verdicts(t, one, two, accuracy);
}

int mf_compare_judge(const mf_compare *c, mf_compare_table **ret)
{
    const size_t n = (size_t)c->n_routers;
    mf_compare_table *t = mf_alloc(1, sizeof *t);
    double *values = mf_alloc(n * (size_t)c->spec->seeds, sizeof *values);
    double *scratch = mf_alloc(2 * n, sizeof *scratch);
    *ret = NULL;
    if (t) t->rows = mf_alloc(n, sizeof *t->rows);
    const bool ok = t && t->rows && values && scratch;
    if (ok) {
        t->of = c;
        t->by = by_what(c, &t->nats_per_bit);
        t->margin = mf_compare_margin_in(c, t->by, t->nats_per_bit);
        t->level = mf_compare_level(c, &t->level_total);
        fill(t, values, scratch, scratch + n);
        *ret = t;
    } else {
        mf_compare_table_free(t);
    }
    mf_free(values);
    mf_free(scratch);
    return ok ? MF_OK : MF_ENOMEM;
}

void mf_compare_table_free(mf_compare_table *t)
{
    if (!t) return;
    mf_free(t->rows);
    mf_free(t);
}
