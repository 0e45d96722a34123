/* swiglu.cuh: the gated activation and its gradient. Forward has a thread for some elements,
 * backward a warp or a block for each row, since it sums over rows. */
#pragma once
#include "base.cuh"

MF_INLINE float mf_swiglu_of(float u, float v, float share)
{
    return u * (1 / (1 + expf(-u))) * v * share;
}

/* The same for results in bf16: without a division and its case of small numbers. */
MF_INLINE float mf_swiglu_near(float u, float v, float share)
{
    return u * mf_reciprocal(1 + mf_exp2(u * -1.44269504f)) * v * share;
}

/* EACH: four columns at once, if rows allow it, or one. */
template <int EACH, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_swiglu(int64_t rows, int64_t n, const T *a, int64_t lda, const T *b, int64_t ldb,
                 const float *gate, T *y)
{
    for (int64_t at = mf_thread() * EACH; at < rows * n; at += mf_threads() * EACH) {
        const int64_t i = mf_over(at, n), j = at - i * n;
        const float share = gate ? gate[i] : 1;
        float u[EACH], v[EACH];
        mf_get_each(a + i * lda + j, u);
        mf_get_each(b + i * ldb + j, v);
        MF_UNROLL
        for (int c = 0; c < EACH; c++)
            v[c] = mf_swiglu_of(u[c], v[c], share);
        mf_put_each(y + at, v);
    }
}

/* silu' = s (1 + a (1 - s)) with s = 1 / (1 + e^-a). y may be dy: a thread writes where it
 * read. */
template <int W, int EACH, class T>
__global__ void __launch_bounds__(MF_THREADS, 4)
    mf_cu_swiglu_backward(int64_t rows, int64_t n, const T *a, int64_t lda, const T *b,
                          int64_t ldb, const float *gate, const T *dy, T *da, T *db,
                          float *dgate, T *y)
{
    const int64_t i = mf_my_row<W>();
    if (i >= rows) return;
    const float share = gate ? gate[i] : 1;
    float sum = 0;
    for (int64_t j = mf_my_lane<W>() * EACH; j < n; j += W * EACH) {
        float u[EACH], v[EACH], g[EACH], du[EACH];
        mf_get_each(a + i * lda + j, u);
        mf_get_each(b + i * ldb + j, v);
        mf_get_each(dy + i * n + j, g);
        MF_UNROLL
        for (int c = 0; c < EACH; c++) {
            const float s = 1 / (1 + expf(-u[c])), silu = u[c] * s, gated = g[c] * share;
            sum += g[c] * silu * v[c];
            du[c] = gated * v[c] * s * (1 + u[c] * (1 - s));
            g[c] = gated * silu;
            v[c] = silu * v[c] * share; /* mf_swiglu_of */
        }
        if (da) mf_put_each(da + i * lda + j, du);
        if (db) mf_put_each(db + i * ldb + j, g);
        if (y) mf_put_each(y + i * n + j, v);
    }
    if (!dgate) return;
    sum = mf_row<W, mf_add>(sum);
    if (mf_my_lane<W>() == 0) dgate[i] = sum;
}

/* Whether rows of n elements of these arrays can be moved in fours. */
static bool mf_swiglu_fours(int type, int64_t n, int64_t lda, int64_t ldb, const void *a,
                            const void *b, const void *y)
{
    return (n | lda | ldb) % 4 == 0 && mf_aligned(type, a, b, y);
}

extern "C" void mf_cuda_swiglu(const mf_kctx *x, const mf_swiglu_args *a)
{
    if (a->rows * a->n <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        mf_by_each(
            mf_swiglu_fours(a->type, a->n, a->lda, a->ldb, a->a, a->b, a->y), [&](auto each) {
                typedef decltype(of) T;
                constexpr int EACH = decltype(each)::each;
                MF_LAUNCH((mf_cu_swiglu<EACH, T>), mf_grid(a->rows * a->n, MF_THREADS * EACH),
                          dim3(MF_THREADS), 0, x, a->rows, a->n, (const T *)a->a, a->lda,
                          (const T *)a->b, a->ldb, a->gate, (T *)a->y);
            });
    });
}

extern "C" void mf_cuda_swiglu_backward(const mf_kctx *x, const mf_swiglu_backward_args *a)
{
    const bool fours = mf_swiglu_fours(a->type, a->n, a->lda, a->ldb, a->a, a->b, a->y) &&
                       mf_aligned(a->type, a->dy, a->da, a->db);
    if (a->rows <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        mf_by_width(a->n, [&](auto w) {
            mf_by_each(fours, [&](auto each) {
                typedef decltype(of) T;
                typedef decltype(w) width;
                constexpr int EACH = decltype(each)::each;
                MF_LAUNCH((mf_cu_swiglu_backward<width::threads, EACH, T>),
                          width::grid(a->rows), dim3(MF_THREADS), 0, x, a->rows, a->n,
                          (const T *)a->a, a->lda, (const T *)a->b, a->ldb, a->gate,
                          (const T *)a->dy, (T *)a->da, (T *)a->db, a->dgate, (T *)a->y);
            });
        });
    });
}
