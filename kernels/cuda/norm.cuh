/* norm.cuh: norms of rows and their gradients. The backward pass keeps mean and factor of
 * each row in scratch memory, and then sums the gradients of weights column by column, in
 * tiles of rows. */
#pragma once
#include "base.cuh"
#include "sum.cuh"

/* The group of a row; -1: it is in none. Without offsets there is one group. */
MF_INLINE int64_t mf_group_of(const int32_t *offset, int64_t groups, int64_t row)
{
    if (!offset) return 0;
    if (row < offset[0] || row >= offset[groups]) return -1;
    int64_t low = 0, high = groups; /* offset[low] <= row < offset[high] */
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (offset[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

typedef struct mf_norm_row {
    float mean, factor, square; /* square: mean of a^2, or the sum for L2 */
} mf_norm_row;

template <int W> MF_INLINE mf_norm_row mf_norm_row_of(const mf_norm_args &p, const float *a)
{
    const int lane = mf_my_lane<W>();
    const float n = (float)p.n;
    mf_norm_row s = {0, 0, 0};
    if (p.kind == MF_NORM_FN_LAYER) {
        float sum = 0;
        for (int64_t j = lane; j < p.n; j += W)
            sum += a[j];
        s.mean = mf_row<W, mf_add>(sum) / n;
    }
    float square = 0;
    for (int64_t j = lane; j < p.n; j += W)
        square += (a[j] - s.mean) * (a[j] - s.mean);
    square = mf_row<W, mf_add>(square);
    s.square = p.kind == MF_NORM_FN_L2 ? square : square / n;
    if (p.kind == MF_NORM_FN_L2)
        s.factor = 1 / fmaxf(sqrtf(square), p.eps);
    else
        s.factor = p.eps_outside && p.kind == MF_NORM_FN_RMS ? 1 / (sqrtf(s.square) + p.eps)
                                                             : 1 / sqrtf(s.square + p.eps);
    return s;
}

template <int W, class T>
__global__ void __launch_bounds__(MF_THREADS) mf_cu_norm(const mf_fault *fault, mf_norm_args p)
{
    const int64_t r = mf_my_row<W>();
    const int lane = mf_my_lane<W>();
    if (r >= p.rows || mf_failed(fault)) return;
    const int64_t e = mf_group_of(p.offset, p.groups, r);
    const float *a = p.a + r * p.n, *w = p.w ? p.w + e * p.n : NULL;
    const float *b = p.b && p.kind == MF_NORM_FN_LAYER ? p.b + e * p.n : NULL;
    T *y = (T *)p.y + r * p.n;
    if (e < 0) {
        for (int64_t j = lane; j < p.n; j += W)
            mf_put(y + j, 0);
        return;
    }
    const mf_norm_row s = mf_norm_row_of<W>(p, a);
    for (int64_t j = lane; j < p.n; j += W)
        mf_put(y + j, (a[j] - s.mean) * s.factor * (w ? w[j] : 1) + (b ? b[j] : 0));
}

/* da of a row, by the formula of each norm, from the sums g = sum w dy and gc = sum w dy c,
 * c = a - mean. */
MF_INLINE float mf_norm_da(const mf_norm_args &p, const mf_norm_row &s, float g, float gc,
                           float a, float wdy)
{
    const float f = s.factor, n = (float)p.n;
    if (p.kind == MF_NORM_FN_LAYER) return f * (wdy - g / n - (a - s.mean) * f * (gc * f / n));
    if (p.kind == MF_NORM_FN_L2) {
        const bool longer = !(sqrtf(s.square) <= p.eps); /* NaN stays NaN */
        return longer ? (wdy - a * gc * f * f) * f : wdy / p.eps;
    }
    const float h = !p.eps_outside ? f * f * f : s.square > 0 ? f * f / sqrtf(s.square) : 0;
    return f * wdy - a * gc * h / n;
}

/* Rows first .. first + count - 1: da, and mean and factor for the sums over columns. */
template <int W, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_norm_backward(const mf_fault *fault, mf_norm_args p, int64_t first, int64_t count,
                        float2 *kept)
{
    const int64_t i = mf_my_row<W>(), r = first + i;
    const int lane = mf_my_lane<W>();
    if (i >= count || mf_failed(fault)) return;
    const int64_t e = mf_group_of(p.offset, p.groups, r);
    const float *a = p.a + r * p.n, *w = p.w ? p.w + e * p.n : NULL;
    const T *dy = (const T *)p.dy + r * p.n;
    if (e < 0) {
        for (int64_t j = lane; p.da && j < p.n; j += W)
            p.da[r * p.n + j] = 0;
        return;
    }
    const mf_norm_row s = mf_norm_row_of<W>(p, a);
    if (kept && lane == 0) kept[i] = make_float2(s.mean, s.factor);
    if (!p.da) return;
    float g = 0, gc = 0;
    for (int64_t j = lane; j < p.n; j += W) {
        const float wdy = (w ? w[j] : 1) * mf_get(dy + j);
        g += wdy, gc += wdy * (a[j] - s.mean);
    }
    g = mf_row<W, mf_add>(g);
    gc = mf_row<W, mf_add>(gc);
    for (int64_t j = lane; j < p.n; j += W)
        p.da[r * p.n + j] = mf_norm_da(p, s, g, gc, a[j], (w ? w[j] : 1) * mf_get(dy + j));
}

/* Sums over the rows first .. first + count - 1 for dw and db: of a tile of them into work [2,
 * MF_NORM_TILES, n], or with groups of those of group blockIdx.y. */
template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_norm_columns(const mf_fault *fault, mf_norm_args p, int64_t first, int64_t count,
                       const float2 *kept)
{
    const int64_t j = (int64_t)blockIdx.x * MF_COLUMNS + threadIdx.x % MF_COLUMNS;
    const int64_t tile = blockIdx.y, size = (count + MF_NORM_TILES - 1) / MF_NORM_TILES;
    if (mf_failed(fault)) return;
    int64_t from = first + tile * size, to = from + size;
    if (p.offset) from = p.offset[tile], to = p.offset[tile + 1];
    if (from < first) from = first;
    if (to > first + count) to = first + count;
    double sum_w = 0, sum_b = 0;
    for (int64_t r = from + threadIdx.x / MF_COLUMNS; j < p.n && r < to; r += MF_LANES) {
        const float2 s = kept[r - first];
        const float dy = mf_get((const T *)p.dy + r * p.n + j);
        sum_w += dy * (p.a[r * p.n + j] - s.x) * s.y;
        sum_b += dy;
    }
    sum_w = mf_column(sum_w);
    sum_b = mf_column(sum_b);
    if (threadIdx.x / MF_COLUMNS > 0 || j >= p.n) return;
    float *work = (float *)p.work;
    float *dw = p.offset ? p.dw : work, *db = p.offset ? p.db : work + MF_NORM_TILES * p.n;
    const bool add = p.offset && first > 0;
    if (dw) dw[tile * p.n + j] = (float)(sum_w + (add ? dw[tile * p.n + j] : 0));
    if (db) db[tile * p.n + j] = (float)(sum_b + (add ? db[tile * p.n + j] : 0));
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_norm_finish(const mf_fault *fault, mf_norm_args p, bool add)
{
    const int64_t j = mf_thread();
    if (j >= p.n || mf_failed(fault)) return;
    const float *work = (const float *)p.work;
    double sum_w = add && p.dw ? p.dw[j] : 0, sum_b = add && p.db ? p.db[j] : 0;
    for (int64_t tile = 0; tile < MF_NORM_TILES; tile++) {
        sum_w += work[tile * p.n + j];
        sum_b += work[(MF_NORM_TILES + tile) * p.n + j];
    }
    if (p.dw) p.dw[j] = (float)sum_w;
    if (p.db) p.db[j] = (float)sum_b;
}

/* ---- launches ---- */

extern "C" void mf_cuda_norm(const mf_kctx *x, const mf_norm_args *p)
{
    if (p->rows <= 0 || p->n <= 0) return;
    mf_by_width(p->n, [&](auto w) {
        mf_by_type(p->type, [&](auto of) {
            typedef decltype(w) width;
            typedef decltype(of) T;
            MF_LAUNCH((mf_cu_norm<width::threads, T>), width::grid(p->rows), dim3(MF_THREADS),
                      0, x, x->fault, *p);
        });
    });
}

template <class T>
static void mf_norm_backward_rows(const mf_kctx *x, const mf_norm_args &p, int64_t first,
                                  int64_t count, float2 *kept)
{
    if (count <= 0 || p.n <= 0) return;
    mf_by_width(p.n, [&](auto w) {
        typedef decltype(w) width;
        MF_LAUNCH((mf_cu_norm_backward<width::threads, T>), width::grid(count),
                  dim3(MF_THREADS), 0, x, x->fault, p, first, count, kept);
    });
}

/* da may be dy (MF_OP_GRAD_INPLACE): then it is written when dw and db, which read dy again,
 * are done. */
template <class T> static void mf_norm_backward_of(const mf_kctx *x, const mf_norm_args &p)
{
    const bool sums = (p.dw || p.db) && p.kind != MF_NORM_FN_L2;
    const int64_t most = MF_CUDA_SCRATCH / sizeof(float2);
    for (int64_t first = 0; first < p.rows || first == 0; first += most) {
        const int64_t left = p.rows - first, count = left < most ? left : most;
        float2 *kept =
            sums ? (float2 *)mf_cuda_scratch(x, (size_t)count * sizeof(float2)) : NULL;
        const bool in_place = sums && (const void *)p.da == p.dy;
        mf_norm_args rows = p;
        if (in_place) rows.da = NULL;
        mf_norm_backward_rows<T>(x, rows, first, count, kept);
        if (!sums || p.n <= 0) continue;
        const dim3 grid(mf_grid(p.n, MF_COLUMNS).x,
                        (unsigned)(p.offset ? p.groups : MF_NORM_TILES));
        MF_LAUNCH(mf_cu_norm_columns<T>, grid, dim3(MF_THREADS), 0, x, x->fault, p, first,
                  count, kept);
        if (!p.offset)
            MF_LAUNCH(mf_cu_norm_finish, mf_grid(p.n, MF_THREADS), dim3(MF_THREADS), 0, x,
                      x->fault, p, first > 0);
        if (in_place) mf_norm_backward_rows<T>(x, p, first, count, NULL);
    }
}

extern "C" void mf_cuda_norm_backward(const mf_kctx *x, const mf_norm_args *p)
{
    mf_by_type(p->type, [&](auto of) { mf_norm_backward_of<decltype(of)>(x, *p); });
}
