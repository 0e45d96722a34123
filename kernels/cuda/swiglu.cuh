/* swiglu.cuh: the gated activation and its gradient. Forward has a thread for each element,
 * backward a warp or a block for each row, since it sums over rows. */
#pragma once
#include "base.cuh"

MF_INLINE float mf_swiglu_of(float u, float v, float share)
{
    return u / (1 + expf(-u)) * v * share;
}

/* The same for results in bf16: without a division and its case of small numbers. */
MF_INLINE float mf_swiglu_near(float u, float v, float share)
{
    return u * mf_reciprocal(1 + mf_exp2(u * -1.44269504f)) * v * share;
}

template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_swiglu(int64_t rows, int64_t n, const T *a, int64_t lda, const T *b, int64_t ldb,
                 const float *gate, T *y)
{
    for (int64_t at = mf_thread(); at < rows * n; at += mf_threads()) {
        const int64_t i = at / n, j = at % n;
        const float u = mf_get(a + i * lda + j), v = mf_get(b + i * ldb + j);
        mf_put(y + at, mf_swiglu_of(u, v, gate ? gate[i] : 1));
    }
}

/* silu' = s (1 + a (1 - s)) with s = 1 / (1 + e^-a). y may be dy: a thread writes where it
 * read. */
template <int W, class T>
__global__ void __launch_bounds__(MF_THREADS, 5)
    mf_cu_swiglu_backward(int64_t rows, int64_t n, const T *a, int64_t lda, const T *b,
                          int64_t ldb, const float *gate, const T *dy, T *da, T *db,
                          float *dgate, T *y)
{
    const int64_t i = mf_my_row<W>();
    if (i >= rows) return;
    const float share = gate ? gate[i] : 1;
    float sum = 0;
    for (int64_t j = mf_my_lane<W>(); j < n; j += W) {
        const float u = mf_get(a + i * lda + j), v = mf_get(b + i * ldb + j);
        const float s = 1 / (1 + expf(-u)), g = mf_get(dy + i * n + j), gated = g * share;
        sum += g * u * s * v;
        if (da) mf_put(da + i * lda + j, gated * v * s * (1 + u * (1 - s)));
        if (db) mf_put(db + i * ldb + j, gated * u * s);
        if (y) mf_put(y + i * n + j, mf_swiglu_of(u, v, share));
    }
    if (!dgate) return;
    sum = mf_row<W, mf_add>(sum);
    if (mf_my_lane<W>() == 0) dgate[i] = sum;
}

extern "C" void mf_cuda_swiglu(const mf_kctx *x, int type, int64_t rows, int64_t n,
                               const void *a, int64_t lda, const void *b, int64_t ldb,
                               const float *gate, void *y)
{
    if (rows * n <= 0) return;
    mf_by_type(type, [&](auto of) {
        typedef decltype(of) T;
        MF_LAUNCH(mf_cu_swiglu<T>, mf_grid(rows * n, MF_THREADS), dim3(MF_THREADS), 0, x, rows,
                  n, (const T *)a, lda, (const T *)b, ldb, gate, (T *)y);
    });
}

extern "C" void mf_cuda_swiglu_backward(const mf_kctx *x, int type, int64_t rows, int64_t n,
                                        const void *a, int64_t lda, const void *b, int64_t ldb,
                                        const float *gate, const void *dy, void *da, void *db,
                                        float *dgate, void *y)
{
    if (rows <= 0) return;
    mf_by_type(type, [&](auto of) {
        mf_by_width(n, [&](auto w) {
            typedef decltype(of) T;
            typedef decltype(w) width;
            MF_LAUNCH((mf_cu_swiglu_backward<width::threads, T>), width::grid(rows),
                      dim3(MF_THREADS), 0, x, rows, n, (const T *)a, lda, (const T *)b, ldb,
                      gate, (const T *)dy, (T *)da, (T *)db, dgate, (T *)y);
        });
    });
}
