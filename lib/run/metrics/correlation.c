/* run/metrics/correlation.c: Pearson's r in double, in two passes (first the means), and
 * Spearman's rho, which is Pearson's r of the ranks. */
#include "run/metrics/correlation.h"
#include <math.h>
#include <stdlib.h>

double mf_pearson(int n, const double *x, const double *y)
{
    double mx = 0, my = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) {
        mx += x[i] / n;
        my += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        const double dx = x[i] - mx, dy = y[i] - my;
        xx += dx * dx;
        yy += dy * dy;
        xy += dx * dy;
    }
    /* A constant series differs from its mean only by rounding. */
    const double none_x = 1e-24 * n * mx * mx, none_y = 1e-24 * n * my * my;
    if (n < 2 || !(xx > none_x) || !(yy > none_y)) return (double)NAN;
    const double r = xy / sqrt(xx) / sqrt(yy);
    if (!isfinite(r)) return (double)NAN;
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

static int ascending(const void *a, const void *b)
{
    const double x = ((const mf_ranked *)a)->value, y = ((const mf_ranked *)b)->value;
    return (x > y) - (x < y);
}

static void rank(int n, const double *x, mf_ranked *order, double *out)
{
    for (int i = 0; i < n; i++)
        order[i] = (mf_ranked){x[i], i};
    qsort(order, (size_t)n, sizeof *order, ascending);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && !(order[end].value > order[i].value);)
            end++;
        for (int k = i; k < end; k++)
            out[order[k].at] = 0.5 * (i + end - 1);
    }
}

double mf_spearman(int n, const double *x, const double *y, const mf_rank_room *room)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]) || !isfinite(y[i])) return (double)NAN;
    rank(n, x, room->order, room->a);
    rank(n, y, room->order, room->b);
    return mf_pearson(n, room->a, room->b);
}
