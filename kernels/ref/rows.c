/* rows.c: softmax and its relatives, row by row. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Largest of a row; NaN if there is one. */
static float largest(int64_t n, const float *row)
{
    float m = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(row[i])) return row[i];
        if (row[i] > m) m = row[i];
    }
    return m;
}

static double sum_exp(int64_t n, const float *row, double m)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(row[i] - m);
    return sum;
}

void mf_ref_softmax(const mf_kctx *x, int64_t rows, int64_t n, const float *in, float *out)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, in += n, out += n) {
        double m = largest(n, in), sum = sum_exp(n, in, m);
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(exp(in[i] - m) / sum);
    }
}

void mf_ref_softmax_grad(const mf_kctx *x, int64_t rows, int64_t n, const float *out,
                         const float *dout, float *din)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, out += n, dout += n, din += n) {
        double dot = 0;
        for (int64_t i = 0; i < n; i++)
            dot += (double)out[i] * dout[i];
        for (int64_t i = 0; i < n; i++)
            din[i] = (float)(out[i] * (dout[i] - dot));
    }
}

void mf_ref_log_softmax(const mf_kctx *x, int64_t rows, int64_t n, const float *in, float *out)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, in += n, out += n) {
        double m = largest(n, in), log_sum = log(sum_exp(n, in, m));
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(in[i] - m - log_sum);
    }
}

void mf_ref_log_softmax_grad(const mf_kctx *x, int64_t rows, int64_t n, const float *out,
                             const float *dout, float *din)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, out += n, dout += n, din += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += dout[i];
        for (int64_t i = 0; i < n; i++)
            din[i] = (float)(dout[i] - exp(out[i]) * sum);
    }
}

void mf_ref_logsumexp(const mf_kctx *x, int64_t rows, int64_t n, const float *in, float *out)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, in += n) {
        double m = largest(n, in);
        out[r] = (float)(isinf(m) ? m : m + log(sum_exp(n, in, m)));
    }
}

void mf_ref_logsumexp_grad(const mf_kctx *x, int64_t rows, int64_t n, const float *in,
                           const float *out, const float *dout, float *din)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, in += n, din += n)
        for (int64_t i = 0; i < n; i++)
            din[i] = (float)(exp((double)in[i] - out[r]) * dout[r]);
}

void mf_ref_row_max(const mf_kctx *x, int64_t rows, int64_t n, const float *in, float *out)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++)
        out[r] = largest(n, in + r * n);
}

void mf_ref_row_max_grad(const mf_kctx *x, int64_t rows, int64_t n, const float *in,
                         const float *dout, float *din)
{
    (void)x;
    for (int64_t r = 0; r < rows; r++, in += n, din += n) {
        float m = largest(n, in);
        int64_t at = 0;
        while (at < n && !(in[at] == m || (isnan(m) && isnan(in[at]))))
            at++;
        for (int64_t i = 0; i < n; i++)
            din[i] = i == at ? dout[r] : 0;
    }
}
