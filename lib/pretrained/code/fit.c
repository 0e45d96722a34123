/* pretrained/code/fit.c: learns how numbers of a graph depend on the batch, by trying.
 * Sizes of shapes are sums of 1, B, n and B n with whole or, where an expert has a share of
 * the tokens, broken factors. Four batches determine the factors; four others, with odd
 * sizes, must agree, so that no wrong function passes. */
#include "pretrained/code/fit.h"

#include <math.h>

void mf_fit_cases(int64_t seq, int64_t experts, mf_fit_case ret[MF_FIT_CASES])
{
    const int32_t many = (int32_t)(100 * (experts > 1 ? experts : 1)),
                  n = seq < 8 ? (int32_t)seq : 8;
    ret[0] = (mf_fit_case){many, 2};
    ret[1] = (mf_fit_case){many, n};
    ret[2] = (mf_fit_case){2 * many, 2};
    ret[3] = (mf_fit_case){2 * many, n};
    ret[4] = (mf_fit_case){1, 1};
    ret[5] = (mf_fit_case){3, n - 1};
    ret[6] = (mf_fit_case){1, (int32_t)(seq < 4096 ? seq : 4095)};
    ret[7] = (mf_fit_case){7, n};
}

/* Solves for a, b, c and d. */
static void solve(const mf_fit_case *at, const double *v, mf_fit *ret)
{
    const double B = at[0].batch, n = at[0].seq, dB = at[2].batch - B, dn = at[1].seq - n;
    const double d = (v[3] - v[2] - v[1] + v[0]) / (dB * dn);
    const double c = (v[1] - v[0]) / dn - d * B, b = (v[2] - v[0]) / dB - d * n;
    *ret = (mf_fit){b == 0 && c == 0 && d == 0, {v[0] - b * B - c * n - d * B * n, b, c, d}, 1};
}

static double value_of(const mf_fit *f, mf_fit_case at)
{
    const double B = at.batch, n = at.seq;
    return f->at[0] + f->at[1] * B + f->at[2] * n + f->at[3] * B * n;
}

static bool fits(const mf_fit_case *at, const int64_t *value, int64_t step, mf_fit *ret)
{
    double v[MF_FIT_LEARN];
    for (int i = 0; i < MF_FIT_LEARN; i++)
        v[i] = (double)value[i] / (double)step;
    solve(at, v, ret);
    ret->step = step;
    for (int i = 0; i < MF_FIT_CASES; i++) {
        double now = floor(value_of(ret, at[i]) + 1e-6);
        if (!ret->constant && now < 1) now = 1;
        if (now * (double)step != (double)value[i]) return false;
    }
    return true;
}

bool mf_fit_whole(const mf_fit_case *at, const int64_t value[MF_FIT_CASES], int64_t experts,
                  mf_fit *ret)
{
    return fits(at, value, 1, ret) || fits(at, value, experts, ret);
}

static bool agrees(const mf_fit_case *at, const double *value, mf_fit *ret)
{
    solve(at, value, ret);
    for (int i = 0; i < MF_FIT_CASES; i++)
        if (!(fabs(value_of(ret, at[i]) - value[i]) <= 1e-9 * fabs(value[i]))) return false;
    return true;
}

bool mf_fit_real(const mf_fit_case *at, const double value[MF_FIT_CASES], mf_fit *ret,
                 bool *ret_over)
{
    double inverse[MF_FIT_CASES];
    for (int i = 0; i < MF_FIT_CASES; i++)
        inverse[i] = 1 / value[i];
    *ret_over = false;
    if (agrees(at, value, ret)) return true;
    *ret_over = true;
    return agrees(at, inverse, ret);
}
