/* lab/scale/bootstrap.c: the fit of the means, its intervals over seeds, and what of it the
 * seeds determine. Each draw fits again, so the intervals hold the doubt about a, c and the
 * means together. */
#include "lab/scale/scale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/rng.h"
#include "lab/stats.h"

/* What is kept of each draw: a, c, then for each router joint, trend, ahead, and for each size
 * the difference and ln k. */
enum { A, C, HEAD };
enum {
    JOINT,
    TREND,
    AHEAD,
    DIFF,
    SPEED = DIFF + MF_SCALE_SIZES,
    NUMBERS = SPEED + MF_SCALE_SIZES
};

typedef struct work {
    const mf_scale_data *d;
    double *mean, *drawn, *x, *weight, *b;
    double *kept; /* [draws][width] */
    int width;
    double middle;
    mf_scale_fit fit;
} work;

static double loss_at(const mf_scale_data *d, int size, int router, int seed)
{
    return d->loss[(size * d->routers + router) * d->seeds + seed];
}

/* 1 / se^2 of each size, from the deviations of all routers; equal with one seed. */
static void weigh(work *w)
{
    const mf_scale_data *d = w->d;
    for (int i = 0; i < d->sizes; i++) {
        double sum = 0;
        for (int r = 0; r < d->routers; r++)
            for (int s = 0; s < d->seeds; s++) {
                const double e = loss_at(d, i, r, s) - w->mean[i * d->routers + r];
                sum += e * e;
            }
        const double var = d->seeds > 1 ? sum / (d->routers * (d->seeds - 1)) : 0;
        w->weight[i] = var > 0 ? d->seeds / var : 1;
    }
}

static void average(work *w)
{
    const mf_scale_data *d = w->d;
    for (int i = 0; i < d->sizes * d->routers; i++) {
        double sum = 0;
        for (int s = 0; s < d->seeds; s++)
            sum += d->loss[i * d->seeds + s];
        w->mean[i] = sum / d->seeds;
    }
}

/* Draws seeds for each size, the same ones for all routers. */
static void draw(work *w, int number)
{
    const mf_scale_data *d = w->d;
    const uint64_t stream = mf_rng_stream("lab.scale");
    const double wider = sqrt((double)d->seeds / (d->seeds - 1));
    for (int i = 0; i < d->sizes; i++) {
        double *to = w->drawn + i * d->routers;
        memset(to, 0, (size_t)d->routers * sizeof *to);
        for (int s = 0; s < d->seeds; s++) {
            const uint64_t at = (uint64_t)i * (uint64_t)d->seeds + (uint64_t)s;
            const int seed = (int)((uint64_t)mf_rng_u32(1, stream, (uint64_t)number, at) *
                                       (uint64_t)d->seeds >>
                                   32);
            for (int r = 0; r < d->routers; r++)
                to[r] += loss_at(d, i, r, seed) / d->seeds;
        }
        for (int r = 0; r < d->routers; r++) {
            const double mean = w->mean[i * d->routers + r];
            to[r] = mean + wider * (to[r] - mean);
        }
    }
}

/* ln k of a router at each size, and the slope of ln k over ln C. */
static double speeds(const work *w, const double *mean, int r, double *out, bool *beyond)
{
    const mf_scale_data *d = w->d;
    double mx = 0, my = 0, xx = 0, xy = 0;
    for (int i = 0; i < d->sizes; i++) {
        const int at = i * d->routers + r;
        out[i] = mf_scale_reach_of(d, mean, mean[at], &beyond[i]) - log(d->compute[at]);
        mx += log(d->compute[at]) / d->sizes;
        my += out[i] / d->sizes;
    }
    for (int i = 0; i < d->sizes; i++) {
        const double x = log(d->compute[i * d->routers + r]) - mx;
        xx += x * x;
        xy += x * (out[i] - my);
    }
    return xy / xx;
}

/* Writes the numbers of the present fit of these means. */
static void keep(const work *w, const double *mean, double *to)
{
    const mf_scale_data *d = w->d;
    const double b0 = w->fit.b[d->baseline];
    bool beyond[MF_SCALE_SIZES];
    to[A] = w->fit.a;
    to[C] = w->fit.c;
    for (int r = 0; r < d->routers; r++) {
        double *n = to + HEAD + r * NUMBERS;
        const double far = MF_SCALE_REACH * d->compute[(d->sizes - 1) * d->routers + r];
        n[JOINT] = pow(b0 / w->fit.b[r], 1 / w->fit.c);
        n[AHEAD] = w->fit.a + w->fit.b[r] * pow(far / w->middle, -w->fit.c);
        n[TREND] = speeds(w, mean, r, n + SPEED, beyond);
        for (int i = 0; i < d->sizes; i++)
            n[DIFF + i] = mean[i * d->routers + r] - mean[i * d->routers + d->baseline];
    }
}

static int by_value(const void *a_, const void *b_)
{
    const double a = *(const double *)a_, b = *(const double *)b_;
    return isnan(a) || isnan(b) ? isnan(a) - isnan(b) : (a > b) - (a < b);
}

/* The 5 and 95 % percentiles of a number over all draws; none if it is unknown in any draw
 * among those, so that what is unknown cannot make an interval short. */
static mf_scale_range range_of(const work *w, int which, double value, double *column)
{
    mf_scale_range v = {value, (double)NAN, (double)NAN};
    if (!w->kept || isnan(value)) return v;
    for (int i = 0; i < MF_SCALE_DRAWS; i++)
        column[i] = w->kept[(size_t)i * (size_t)w->width + (size_t)which];
    qsort(column, MF_SCALE_DRAWS, sizeof *column, by_value);
    if (isnan(column[MF_SCALE_DRAWS - 1])) return v;
    v.lo = column[MF_SCALE_DRAWS / 20];
    v.hi = column[MF_SCALE_DRAWS - 1 - MF_SCALE_DRAWS / 20];
    return v;
}

static mf_scale_range power_of(mf_scale_range v)
{
    return (mf_scale_range){exp(v.value), exp(v.lo), exp(v.hi)};
}

/* ---- what is determined ---- */

/* F test of the power law against the line, of which it needs one number more. The weights hold
 * the variance of the seeds, so the residual sums of squares are in units of it. */
static double line_fits(const work *w)
{
    const mf_scale_data *d = w->d;
    if (d->seeds < 2) return (double)NAN;
    const double gain = mf_scale_fit_line(d, w->mean, w->weight) - w->fit.rss;
    return mf_t_two_sided(sqrt(fmax(0, gain)), d->sizes * d->routers * (d->seeds - 1));
}

/* P(F > f) with these degrees: F test of what the form leaves over, against the seeds. */
static double form_fits(const work *w)
{
    const mf_scale_data *d = w->d;
    const int left = d->sizes * d->routers - d->routers - 2;
    const double seeds = d->sizes * d->routers * (d->seeds - 1);
    if (d->seeds < 2 || left < 1) return (double)NAN;
    const double f = w->fit.rss / left;
    return mf_beta_inc(seeds / 2, left / 2.0, seeds / (seeds + left * f));
}

static void judge(mf_scaling *s)
{
    s->why = NULL;
    if (s->data.seeds < 2)
        s->why = "one seed of each size";
    else if (s->c.lo <= .001 || s->c.hi >= 1 - 1e-9 || isnan(s->c.lo))
        s->why = "the interval of the exponent reaches the end of (0, 1]";
    else if (s->c.hi > 2 * s->c.lo)
        s->why = "the interval of the exponent is wider than a factor of 2";
    else if (s->p_form < .05)
        s->why = "the losses do not follow this form";
    else if (!(s->p_line < .05))
        s->why = "a straight line in ln C fits as well";
    s->identified = !s->why;
}

/* ---- the whole ---- */

static void put(mf_scaling *s, const work *w, const double *now, double *column)
{
    const mf_scale_data *d = &s->data;
    const mf_scale_range none = {(double)NAN, (double)NAN, (double)NAN};
    bool beyond[MF_SCALE_SIZES];
    s->a = range_of(w, A, now[A], column);
    s->c = range_of(w, C, now[C], column);
    s->p_line = line_fits(w);
    s->p_form = form_fits(w);
    judge(s);
    for (int r = 0; r < d->routers; r++) {
        const int at = HEAD + r * NUMBERS;
        mf_scale_router *to = &s->router[r];
        double ignored[MF_SCALE_SIZES];
        to->b = w->fit.b[r];
        to->joint = s->identified ? range_of(w, at + JOINT, now[at + JOINT], column) : none;
        to->ahead = s->identified ? range_of(w, at + AHEAD, now[at + AHEAD], column) : none;
        to->trend = range_of(w, at + TREND, now[at + TREND], column);
        (void)speeds(w, w->mean, r, ignored, beyond);
        for (int i = 0; i < d->sizes; i++) {
            to->loss[i] = w->mean[i * d->routers + r];
            to->diff[i] = range_of(w, at + DIFF + i, now[at + DIFF + i], column);
            to->speed[i] = power_of(range_of(w, at + SPEED + i, now[at + SPEED + i], column));
            to->beyond[i] = beyond[i];
        }
    }
    /* the slope between the neighbours of a size; at the ends to the only one */
    for (int i = 0; i < d->sizes; i++) {
        const int lo = i > 0 ? i - 1 : i, hi = i + 1 < d->sizes ? i + 1 : i;
        const int a = lo * d->routers + d->baseline, b = hi * d->routers + d->baseline;
        s->slope[i] = (w->mean[a] - w->mean[b]) / log(d->compute[b] / d->compute[a]);
    }
}

static int compute(mf_scaling *s, work *w)
{
    const mf_scale_data *d = &s->data;
    double *now = mf_alloc((size_t)w->width, sizeof *now),
           *column = mf_alloc(MF_SCALE_DRAWS, sizeof *column);
    const bool room = now && column && w->mean && w->drawn && w->x && w->weight && w->b &&
                      (w->kept || d->seeds < 2);
    if (room) {
        double sum = 0;
        for (int i = 0; i < d->sizes * d->routers; i++)
            sum += log(d->compute[i]);
        s->middle = w->middle = exp(sum / (d->sizes * d->routers));
        average(w);
        weigh(w);
        for (int i = 0; w->kept && i < MF_SCALE_DRAWS; i++) {
            draw(w, i);
            mf_scale_fit_power(d, w->drawn, w->weight, w->middle, w->x, &w->fit);
            keep(w, w->drawn, w->kept + (size_t)i * (size_t)w->width);
        }
        mf_scale_fit_power(d, w->mean, w->weight, w->middle, w->x, &w->fit);
        keep(w, w->mean, now);
        put(s, w, now, column);
    }
    mf_free(now);
    mf_free(column);
    return room ? MF_OK : MF_ENOMEM;
}

int mf_scale_new(const mf_scale_data *data, mf_scaling **ret)
{
    if (data->sizes < 3 || data->sizes > MF_SCALE_SIZES || data->seeds < 1)
        return mf_fail(MF_EINVAL, "scale: expected 3 to %d sizes, found %d",
                       (int)MF_SCALE_SIZES, data->sizes);
    mf_scaling *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    s->data = *data;
    s->router = mf_alloc((size_t)data->routers, sizeof *s->router);
    const size_t n = (size_t)data->sizes * (size_t)data->routers;
    work w = {.d = &s->data, .width = HEAD + data->routers * NUMBERS};
    w.mean = mf_alloc(n, sizeof *w.mean);
    w.drawn = mf_alloc(n, sizeof *w.drawn);
    w.x = mf_alloc(n, sizeof *w.x);
    w.weight = mf_alloc((size_t)data->sizes, sizeof *w.weight);
    w.b = mf_alloc((size_t)data->routers, sizeof *w.b);
    w.fit.b = w.b;
    if (data->seeds > 1)
        w.kept = mf_alloc((size_t)MF_SCALE_DRAWS * (size_t)w.width, sizeof *w.kept);
    const int rc = s->router ? compute(s, &w) : MF_ENOMEM;
    mf_free(w.mean);
    mf_free(w.drawn);
    mf_free(w.x);
    mf_free(w.weight);
    mf_free(w.b);
    mf_free(w.kept);
    if (rc == MF_OK)
        *ret = s;
    else
        mf_scale_free(s);
    return rc;
}

void mf_scale_free(mf_scaling *s)
{
    if (!s) return;
    mf_free(s->router);
    mf_free(s);
}
