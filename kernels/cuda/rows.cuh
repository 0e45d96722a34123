/* rows.cuh: softmax and related functions of rows; a warp or a block each row. The largest
 * element is subtracted before e^x is computed. */
#pragma once
#include "base.cuh"

template <int W> MF_INLINE float mf_largest(int64_t n, const float *x)
{
    float m = -INFINITY;
    for (int64_t i = mf_my_lane<W>(); i < n; i += W)
        m = mf_most::of(x[i], m);
    return mf_row<W, mf_most>(m);
}

template <int W>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_row_map(int fn, int64_t rows, int64_t n, const float *in, float *out)
{
    const int64_t r = mf_my_row<W>();
    const int lane = mf_my_lane<W>();
    if (r >= rows) return;
    const float *x = in + r * n, m = mf_largest<W>(n, x);
    if (fn == MF_ROW_MAX) {
        if (lane == 0) out[r] = m;
        return;
    }
    float sum = 0;
    for (int64_t i = lane; i < n; i += W)
        sum += expf(x[i] - m);
    sum = mf_row<W, mf_add>(sum);
    if (fn == MF_ROW_LOGSUMEXP) {
        if (lane == 0) out[r] = isinf(m) ? m : m + logf(sum);
        return;
    }
    const float factor = 1 / sum, log_sum = logf(sum);
    for (int64_t i = lane; i < n; i += W)
        out[r * n + i] = fn == MF_ROW_SOFTMAX ? expf(x[i] - m) * factor : x[i] - m - log_sum;
}

template <int W>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_row_map_grad(int fn, int64_t rows, int64_t n, const float *in, const float *out,
                       const float *dout, float *din)
{
    const int64_t r = mf_my_row<W>(), at = r * n;
    const int lane = mf_my_lane<W>();
    if (r >= rows) return;
    if (fn == MF_ROW_LOGSUMEXP) {
        for (int64_t i = lane; i < n; i += W)
            din[at + i] = expf(in[at + i] - out[r]) * dout[r];
        return;
    }
    if (fn == MF_ROW_MAX) {
        const float m = mf_largest<W>(n, in + at);
        int first = (int)n;
        for (int64_t i = lane; i < n; i += W) {
            const float v = in[at + i];
            if ((v == m || (isnan(m) && isnan(v))) && i < first) first = (int)i;
        }
        first = mf_row<W, mf_least>(first);
        for (int64_t i = lane; i < n; i += W)
            din[at + i] = i == first ? dout[r] : 0;
        return;
    }
    float sum = 0;
    for (int64_t i = lane; i < n; i += W)
        sum += fn == MF_ROW_SOFTMAX ? out[at + i] * dout[at + i] : dout[at + i];
    sum = mf_row<W, mf_add>(sum);
    for (int64_t i = lane; i < n; i += W) {
        const float y = out[at + i], dy = dout[at + i];
        din[at + i] = fn == MF_ROW_SOFTMAX ? y * (dy - sum) : dy - expf(y) * sum;
    }
}

extern "C" void mf_cuda_row_map(const mf_kctx *x, const mf_row_map_args *a)
{
    if (a->rows <= 0) return;
    mf_by_width(a->n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_row_map<width::threads>, width::grid(a->rows), dim3(MF_THREADS), 0, x,
                  a->fn, a->rows, a->n, a->in, a->out);
    });
}

extern "C" void mf_cuda_row_map_grad(const mf_kctx *x, const mf_row_map_grad_args *a)
{
    if (a->rows <= 0 || a->n <= 0) return;
    mf_by_width(a->n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH(mf_cu_row_map_grad<width::threads>, width::grid(a->rows), dim3(MF_THREADS), 0,
                  x, a->fn, a->rows, a->n, a->in, a->out, a->dout, a->din);
    });
}
