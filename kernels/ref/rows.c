/* rows.c: softmax and related functions, row by row. The largest element is subtracted before
 * e^x is computed; sums are in double. */
#include <math.h>

#include "kernels/ref/ref.h"

/* Returns the largest element of a row; NaN if the row contains a NaN. */
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

static void softmax(int64_t rows, int64_t n, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++, in += n, out += n) {
        double m = largest(n, in), sum = sum_exp(n, in, m);
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(exp(in[i] - m) / sum);
    }
}

static void softmax_grad(int64_t rows, int64_t n, const float *out, const float *dout,
                         float *din)
{
    for (int64_t r = 0; r < rows; r++, out += n, dout += n, din += n) {
        double dot = 0;
        for (int64_t i = 0; i < n; i++)
            dot += (double)out[i] * dout[i];
        for (int64_t i = 0; i < n; i++)
            din[i] = (float)(out[i] * (dout[i] - dot));
    }
}

static void log_softmax(int64_t rows, int64_t n, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++, in += n, out += n) {
        double m = largest(n, in), log_sum = log(sum_exp(n, in, m));
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(in[i] - m - log_sum);
    }
}

static void log_softmax_grad(int64_t rows, int64_t n, const float *out, const float *dout,
                             float *din)
{
    for (int64_t r = 0; r < rows; r++, out += n, dout += n, din += n) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += dout[i];
        for (int64_t i = 0; i < n; i++)
            din[i] = (float)(dout[i] - exp(out[i]) * sum);
    }
}

static void logsumexp(int64_t rows, int64_t n, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++, in += n) {
        double m = largest(n, in);
        out[r] = (float)(isinf(m) ? m : m + log(sum_exp(n, in, m)));
    }
}

static void logsumexp_grad(int64_t rows, int64_t n, const float *in, const float *out,
                           const float *dout, float *din)
{
    for (int64_t r = 0; r < rows; r++, in += n, din += n)
        for (int64_t i = 0; i < n; i++)
            din[i] = (float)(exp((double)in[i] - out[r]) * dout[r]);
}

static void row_max(int64_t rows, int64_t n, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++)
        out[r] = largest(n, in + r * n);
}

static void row_max_grad(int64_t rows, int64_t n, const float *in, const float *dout,
                         float *din)
{
    for (int64_t r = 0; r < rows; r++, in += n, din += n) {
        float m = largest(n, in);
        int64_t at = 0;
        while (at < n && !(in[at] == m || (isnan(m) && isnan(in[at]))))
            at++;
        for (int64_t i = 0; i < n; i++)
            din[i] = i == at ? dout[r] : 0;
    }
}

void mf_ref_row_map(const mf_kctx *x, const mf_row_map_args *a)
{
    (void)x;
    switch ((mf_row_fn)a->fn) {
    case MF_ROW_SOFTMAX:
        softmax(a->rows, a->n, a->in, a->out);
        break;
    case MF_ROW_LOG_SOFTMAX:
        log_softmax(a->rows, a->n, a->in, a->out);
        break;
    case MF_ROW_LOGSUMEXP:
        logsumexp(a->rows, a->n, a->in, a->out);
        break;
    case MF_ROW_MAX:
        row_max(a->rows, a->n, a->in, a->out);
        break;
    }
}

void mf_ref_row_map_grad(const mf_kctx *x, const mf_row_map_grad_args *a)
{
    (void)x;
    switch ((mf_row_fn)a->fn) {
    case MF_ROW_SOFTMAX:
        softmax_grad(a->rows, a->n, a->out, a->dout, a->din);
        break;
    case MF_ROW_LOG_SOFTMAX:
        log_softmax_grad(a->rows, a->n, a->out, a->dout, a->din);
        break;
    case MF_ROW_LOGSUMEXP:
        logsumexp_grad(a->rows, a->n, a->in, a->out, a->dout, a->din);
        break;
    case MF_ROW_MAX:
        row_max_grad(a->rows, a->n, a->in, a->dout, a->din);
        break;
    }
}
