/* The margin of --equivalent: its units, and the verdicts "equal within", "better" and "worse"
 * by more than it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "lab/compare/compare_parts.h"

#define POWER      0.8
#define CONFIDENCE 0.8 /* of the deviation from which numbers of seeds are planned */
#define MOST_SEEDS 1000

static const char *const units[] = {"", "nats", "bpb", "points"};

int mf_margin_read(const char *text, mf_margin *ret)
{
    char *end;
    const double value = strtod(text, &end);
    for (int i = 0; end != text && i < 4; i++)
        if (strcmp(end, units[i]) == 0 && value > 0 && value <= 1e9) {
            *ret = (mf_margin){value, (mf_margin_unit)i};
            return MF_OK;
        }
    return mf_fail(MF_EUSAGE,
                   "--equivalent: expected a number above 0, alone or with nats, bpb (bits per "
                   "byte) or points (of accuracy), such as .02nats; found '%s'",
                   text);
}

const char *mf_margin_text(mf_margin m, char ret[MF_MARGIN_TEXT])
{
    snprintf(ret, MF_MARGIN_TEXT, "%.10g%s", m.value, units[m.unit]);
    return ret;
}

int mf_compare_margin_fits(const mf_compare *c)
{
    char text[MF_MARGIN_TEXT];
    const mf_margin_unit unit = c->margin.unit;
    if (c->margin.value == 0 || unit == MF_MARGIN_OWN ||
        (unit == MF_MARGIN_POINTS ? c->by == MF_QUALITY_ACCURACY : c->by == MF_QUALITY_LOSS))
        return MF_OK;
    return mf_fail(MF_EUSAGE,
                   "--equivalent: this task is compared by %s; expected %s, found %s",
                   c->by == MF_QUALITY_MSE        ? "its mean squared error"
                   : c->by == MF_QUALITY_ACCURACY ? "accuracy"
                                                  : "its loss",
                   c->by == MF_QUALITY_MSE        ? "a number without a unit"
                   : c->by == MF_QUALITY_ACCURACY ? "a number with points, or without a unit"
                                                  : "a number with nats or bpb",
                   mf_margin_text(c->margin, text));
}

double mf_compare_margin_in(const mf_compare *c, mf_quality by, double nats_per_bit)
{
    const double value = c->margin.value > 0 ? c->margin.value : (double)NAN;
    /* without a unit: that of the task, even where runs are compared by another quantity */
    const mf_margin_unit unit = c->margin.unit == MF_MARGIN_OWN && c->by == MF_QUALITY_LOSS
                                    ? MF_MARGIN_NATS
                                    : c->margin.unit;
    switch (by) {
    case MF_QUALITY_LOSS:
        return unit == MF_MARGIN_NATS   ? value
               : unit == MF_MARGIN_BITS ? value * nats_per_bit
                                        : (double)NAN;
    case MF_QUALITY_BITS:
        return unit == MF_MARGIN_BITS ? value : (double)NAN;
    case MF_QUALITY_ACCURACY:
        return unit == MF_MARGIN_POINTS ? value / 100 : value;
    case MF_QUALITY_MSE:
        break;
    }
    return value;
}

static int seeds_for_equality(const mf_compare_table *t, const mf_compare_row *row,
                              double level)
{
    const mf_estimate *d = &row->against.diff;
    if (row->baseline || d->n < 2) return -1;
    const double sd = d->sd * mf_sd_limit(d->n, CONFIDENCE);
    const int n = mf_equal_pairs(t->margin / sd, level, POWER, MOST_SEEDS);
    return n > 0 && n < MF_VERDICT_SEEDS ? MF_VERDICT_SEEDS : n;
}

static mf_verdict claim(const mf_compare_row *row, bool accuracy)
{
    const mf_three_sided *s = &row->sides;
    mf_verdict v = MF_VERDICT_EQUAL;
    if (row->p_margin != s->equal)
        v = (row->p_margin == s->above) == accuracy ? MF_VERDICT_BETTER : MF_VERDICT_WORSE;
    return row->diverged > 0 && v != MF_VERDICT_WORSE ? MF_VERDICT_OPEN : v;
}

/* scratch: room for a number of each row */
static double median_deviation(const mf_compare_table *t, double *scratch)
{
    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (!t->rows[i].baseline && t->rows[i].against.diff.n > 1)
            scratch[n++] = t->rows[i].against.diff.sd;
    return mf_median(scratch, n);
}

void mf_compare_margin_judge(mf_compare_table *t, double *p, double *holm, bool accuracy)
{
    const double level = t->level / (t->compared > 0 ? t->compared : 1);
    for (int i = 0; i < t->n; i++) {
        mf_compare_row *row = &t->rows[i];
        row->sides = mf_three_sided_of(&row->against.diff, t->margin);
        row->p_margin = p[i] = row->baseline ? (double)NAN : mf_three_sided_p(&row->sides);
    }
    mf_holm(p, t->n, holm);
    t->deviation = median_deviation(t, p);
    for (int i = 0; i < t->n; i++) {
        mf_compare_row *row = &t->rows[i];
        const mf_estimate *d = &row->against.diff;
        row->p_margin_holm = holm[i];
        row->differs = row->verdict;
        row->seeds_equal = -1;
        mf_equal_range(d, row->baseline ? (double)NAN : t->level, &row->equal_lo,
                       &row->equal_hi);
        if (t->of->margin.value == 0 || row->baseline || row->verdict == MF_VERDICT_UNKNOWN)
            continue;
        row->verdict = row->p_margin_holm < t->level && d->n >= MF_VERDICT_SEEDS
                           ? claim(row, accuracy)
                           : MF_VERDICT_OPEN;
        if (row->verdict == MF_VERDICT_EQUAL || row->verdict == MF_VERDICT_OPEN)
            row->seeds_equal = seeds_for_equality(t, row, level);
    }
}
