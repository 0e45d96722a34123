/* norm.cuh: norms of rows and their gradients. A row that the registers of its threads can hold
 * is read at once, and only then summed. The backward pass keeps mean and factor of
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

/* A row of n numbers, held in registers: FOURS times four of each of its W threads, next to
 * each other. */
template <int W, int FOURS> struct mf_held_row {
    float v[FOURS][4];
    static MF_METHOD int column(int q) { return 4 * (W * q + mf_my_lane<W>()); }
    template <class T> MF_METHOD void get(const T *row, int64_t n)
    {
        MF_UNROLL
        for (int q = 0; q < FOURS; q++)
            if (column(q) < n) mf_get4(row + column(q), v[q]);
    }
    /* Sums `of` over the numbers of this thread, of which it has columns below n. */
    template <class F> MF_METHOD float sum(int64_t n, F of) const
    {
        float all = 0;
        MF_UNROLL
        for (int q = 0; q < FOURS; q++)
            MF_UNROLL
        for (int i = 0; column(q) < n && i < 4; i++)
            all += of(v[q][i]);
        return all;
    }
};
/* The same of any row: it is read each time. */
template <int W> struct mf_held_row<W, 0> {
    const float *row;
    MF_METHOD void get(const float *of, int64_t) { row = of; }
    template <class F> MF_METHOD float sum(int64_t n, F of) const
    {
        float all = 0;
        for (int64_t j = mf_my_lane<W>(); j < n; j += W)
            all += of(row[j]);
        return all;
    }
};

template <int W, int FOURS>
MF_INLINE mf_norm_row mf_norm_row_of(const mf_norm_args &p, const mf_held_row<W, FOURS> &a)
{
    const float n = (float)p.n;
    mf_norm_row s = {0, 0, 0};
    if (p.kind == MF_NORM_FN_LAYER)
        s.mean = mf_row<W, mf_add>(a.sum(p.n, [](float v) { return v; })) / n;
    const float square =
        mf_row<W, mf_add>(a.sum(p.n, [&](float v) { return (v - s.mean) * (v - s.mean); }));
    s.square = p.kind == MF_NORM_FN_L2 ? square : square / n;
    if (p.kind == MF_NORM_FN_L2)
        s.factor = 1 / fmaxf(sqrtf(square), p.eps);
    else
        s.factor = p.eps_outside && p.kind == MF_NORM_FN_RMS ? 1 / (sqrtf(s.square) + p.eps)
                                                             : 1 / sqrtf(s.square + p.eps);
    return s;
}

/* Weights of four columns; 1, or 0, without any. */
MF_INLINE void mf_norm_weights(const float *w, int64_t j, float none, float v[4])
{
    if (w)
        mf_get4(w + j, v);
    else
        v[0] = v[1] = v[2] = v[3] = none;
}

/* Rounds as an array of T does. */
MF_INLINE void mf_get4_rounded(const float *, float (&)[4]) {}
MF_INLINE void mf_get4_rounded(const mf_bf16 *, float (&v)[4])
{
    MF_UNROLL
    for (int i = 0; i < 4; i++)
        v[i] = mf_bf16_to_f32(mf_bf16_from_f32(v[i]));
}

template <int W, int FOURS, class T>
__global__ void __launch_bounds__(MF_THREADS) mf_cu_norm(const mf_fault *fault, mf_norm_args p)
{
    const int64_t r = mf_my_row<W>();
    if (r >= p.rows || mf_failed(fault)) return;
    const int64_t e = mf_group_of(p.offset, p.groups, r);
    const float *w = p.w ? p.w + e * p.n : NULL;
    const float *b = p.b && p.kind == MF_NORM_FN_LAYER ? p.b + e * p.n : NULL;
    T *y = (T *)p.y + r * p.n;
    if (e < 0) {
        for (int64_t j = mf_my_lane<W>(); j < p.n; j += W)
            mf_put(y + j, 0);
        return;
    }
    mf_held_row<W, FOURS> a;
    a.get(p.a + r * p.n, p.n);
    const mf_norm_row s = mf_norm_row_of<W>(p, a);
    if constexpr (FOURS > 0) {
        MF_UNROLL
        for (int q = 0; q < FOURS; q++) {
            const int j = a.column(q);
            float u[4], v[4];
            if (j >= p.n) continue;
            mf_norm_weights(w, j, 1, u);
            mf_norm_weights(b, j, 0, v);
            MF_UNROLL
            for (int i = 0; i < 4; i++)
                v[i] = (a.v[q][i] - s.mean) * s.factor * u[i] + v[i];
            mf_put4(y + j, v);
            if (!p.wide) continue;
            mf_get4_rounded(y, v);
            mf_put4(p.wide + r * p.n + j, v);
        }
    } else
        for (int64_t j = mf_my_lane<W>(); j < p.n; j += W) {
            mf_put(y + j, (a.row[j] - s.mean) * s.factor * (w ? w[j] : 1) + (b ? b[j] : 0));
            if (p.wide) p.wide[r * p.n + j] = mf_get(y + j);
        }
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
template <int W, int FOURS, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_norm_backward(const mf_fault *fault, mf_norm_args p, int64_t first, int64_t count,
                        float2 *kept)
{
    const int64_t i = mf_my_row<W>(), r = first + i;
    const int lane = mf_my_lane<W>();
    if (i >= count || mf_failed(fault)) return;
    const int64_t e = mf_group_of(p.offset, p.groups, r);
    const float *w = p.w ? p.w + e * p.n : NULL;
    const T *dy = (const T *)p.dy + r * p.n;
    float *da = p.da ? p.da + r * p.n : NULL;
    if (e < 0) {
        for (int64_t j = lane; da && j < p.n; j += W)
            da[j] = 0;
        return;
    }
    mf_held_row<W, FOURS> a, wdy; /* w dy, of dy at first */
    a.get(p.a + r * p.n, p.n);
    if constexpr (FOURS > 0)
        if (da) wdy.get(dy, p.n);
    const mf_norm_row s = mf_norm_row_of<W>(p, a);
    if (kept && lane == 0) kept[i] = make_float2(s.mean, s.factor);
    if (!da) return;
    float g = 0, gc = 0;
    if constexpr (FOURS > 0) {
        MF_UNROLL
        for (int q = 0; q < FOURS; q++) {
            float u[4];
            if (a.column(q) >= p.n) continue;
            mf_norm_weights(w, a.column(q), 1, u);
            MF_UNROLL
            for (int k = 0; k < 4; k++) {
                wdy.v[q][k] *= u[k];
                g += wdy.v[q][k], gc += wdy.v[q][k] * (a.v[q][k] - s.mean);
            }
        }
    } else
        for (int64_t j = lane; j < p.n; j += W) {
            const float each = (w ? w[j] : 1) * mf_get(dy + j);
            g += each, gc += each * (a.row[j] - s.mean);
        }
    g = mf_row<W, mf_add>(g);
    gc = mf_row<W, mf_add>(gc);
    if constexpr (FOURS > 0) {
        MF_UNROLL
        for (int q = 0; q < FOURS; q++) {
            if (a.column(q) >= p.n) continue;
            MF_UNROLL
            for (int k = 0; k < 4; k++)
                wdy.v[q][k] = mf_norm_da(p, s, g, gc, a.v[q][k], wdy.v[q][k]);
            mf_put4(da + a.column(q), wdy.v[q]);
        }
    } else
        for (int64_t j = lane; j < p.n; j += W)
            da[j] = mf_norm_da(p, s, g, gc, a.row[j], (w ? w[j] : 1) * mf_get(dy + j));
}

/* Sums over the rows first .. first + count - 1 for dw and db: of a tile of them into work [2,
 * MF_NORM_TILES, n], or with groups of those of group blockIdx.y. */
template <class C, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_norm_columns(const mf_fault *fault, mf_norm_args p, int64_t first, int64_t count,
                       const float2 *kept)
{
    const int64_t j = mf_my_column<C>(), of = mf_summed_column<C>(p.n);
    const int64_t tile = blockIdx.y, size = (count + MF_NORM_TILES - 1) / MF_NORM_TILES;
    if (mf_failed(fault)) return;
    int64_t from = first + tile * size, to = from + size;
    if (p.offset) from = p.offset[tile], to = p.offset[tile + 1];
    if (from < first) from = first;
    if (to > first + count) to = first + count;
    if (j >= p.n) to = from;
    double sum_w[C::each] = {}, sum_b[C::each] = {};
    MF_UNROLL_BY(2)
    for (int64_t r = from + mf_my_lane_of_column<C>(); r < to; r += C::rows) {
        const float2 s = kept[r - first];
        float a[C::each], dy[C::each];
        mf_get_each(p.a + r * p.n + j, a);
        mf_get_each((const T *)p.dy + r * p.n + j, dy);
        MF_UNROLL
        for (int k = 0; k < C::each; k++) {
            sum_w[k] += dy[k] * (a[k] - s.x) * s.y;
            sum_b[k] += dy[k];
        }
    }
    const double total_w = mf_column<C>(sum_w), total_b = mf_column<C>(sum_b);
    if (of >= p.n) return;
    float *work = (float *)p.work;
    float *dw = p.offset ? p.dw : work, *db = p.offset ? p.db : work + MF_NORM_TILES * p.n;
    const bool add = p.offset && first > 0;
    if (dw) dw[tile * p.n + of] = (float)(total_w + (add ? dw[tile * p.n + of] : 0));
    if (db) db[tile * p.n + of] = (float)(total_b + (add ? db[tile * p.n + of] : 0));
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

/* ---- with a residual ---- */

/* da + add, its copy, and sums over rows, of which each array is read once. A block has rows in
 * turn, as many at once as it has rows of threads, and each thread sums its columns: which
 * numbers are added in which order depends on the shape alone. Sums of a block go to work
 * [3, MF_SUM_TILES, n]. */
template <int W, int FOURS, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_norm_add(const mf_fault *fault, mf_norm_args p)
{
    constexpr int ROWS = MF_THREADS / W;
    MF_SHARED(float, part, [ROWS > 1 ? (ROWS - 1) * 4 * W * FOURS : 1]);
    const int own = (int)threadIdx.x / W;
    float sum[3][FOURS][4] = {}; /* dw, db, sum */
    if (mf_failed(fault)) return;
    for (int64_t r = (int64_t)blockIdx.x * ROWS + own; r < p.rows;
         r += (int64_t)gridDim.x * ROWS) {
        mf_held_row<W, FOURS> a, wdy, add;
        a.get(p.a + r * p.n, p.n);
        wdy.get((const T *)p.dy + r * p.n, p.n);
        if (p.add) add.get(p.add + r * p.n, p.n);
        const mf_norm_row s = mf_norm_row_of<W>(p, a);
        float g = 0, gc = 0;
        MF_UNROLL
        for (int q = 0; q < FOURS; q++) {
            float u[4];
            if (a.column(q) >= p.n) continue;
            mf_norm_weights(p.w, a.column(q), 1, u);
            MF_UNROLL
            for (int k = 0; k < 4; k++) {
                const float c = a.v[q][k] - s.mean;
                sum[0][q][k] += wdy.v[q][k] * c * s.factor;
                sum[1][q][k] += wdy.v[q][k];
                wdy.v[q][k] *= u[k];
                g += wdy.v[q][k], gc += wdy.v[q][k] * c;
            }
        }
        g = mf_row<W, mf_add>(g);
        gc = mf_row<W, mf_add>(gc);
        MF_UNROLL
        for (int q = 0; q < FOURS; q++) {
            const int64_t at = r * p.n + a.column(q);
            if (a.column(q) >= p.n) continue;
            MF_UNROLL
            for (int k = 0; k < 4; k++) {
                float da = mf_norm_da(p, s, g, gc, a.v[q][k], wdy.v[q][k]);
                if (p.add) da = add.v[q][k] + da;
                wdy.v[q][k] = da;
                sum[2][q][k] += da;
            }
            mf_put4(p.da + at, wdy.v[q]);
            if (p.copy) mf_put4(p.copy + at, wdy.v[q]);
        }
    }
    MF_UNROLL
    for (int which = 0; which < 3; which++) {
        float *to = (float *)p.work + ((int64_t)which * MF_SUM_TILES + blockIdx.x) * p.n;
        if (which == 0 ? !p.dw : which == 1 ? !p.db : !p.sum) continue;
        __syncthreads(); /* the sums before were read */
        MF_UNROLL
        for (int q = 0; ROWS > 1 && own > 0 && q < FOURS; q++)
            mf_put4(part + ((own - 1) * FOURS + q) * 4 * W + 4 * mf_my_lane<W>(),
                    sum[which][q]);
        __syncthreads();
        if (own > 0) continue;
        MF_UNROLL
        for (int q = 0; q < FOURS; q++) {
            const int column = 4 * (W * q + mf_my_lane<W>());
            if (column >= p.n) continue;
            for (int row = 1; row < ROWS; row++) {
                float more[4];
                mf_get4(part + ((row - 1) * FOURS + q) * 4 * W + 4 * mf_my_lane<W>(), more);
                MF_UNROLL
                for (int k = 0; k < 4; k++)
                    sum[which][q][k] += more[k];
            }
            mf_put4(to + column, sum[which][q]);
        }
    }
}

/* ---- launches ---- */

/* Whether these rows, and weights, begin at addresses that are aligned to four numbers. */
static bool mf_norm_fours(const mf_norm_args &p)
{
    return p.n % 4 == 0 && mf_aligned(MF_CAST_F32, p.a, p.w, p.b, p.da) &&
           mf_aligned(p.type, p.y, p.dy);
}
/* Calls fn with the threads of a row, and the fours of each that registers hold. */
template <class F> static inline void mf_by_held(const mf_norm_args &p, F fn)
{
    const bool fours = mf_norm_fours(p);
    if (fours && p.n <= 4 * 4 * MF_WARP)
        fn(mf_width<MF_WARP>(), mf_each_of<4>());
    else if (fours && p.n <= 4 * 8 * MF_WARP)
        fn(mf_width<MF_WARP>(), mf_each_of<8>());
    else if (fours && p.n > MF_SHORT_ROW && p.n <= 4 * 4 * MF_THREADS)
        fn(mf_width<MF_THREADS>(), mf_each_of<4>());
    else
        mf_by_width(p.n, [&](auto w) { fn(w, mf_each_of<0>()); });
}

extern "C" void mf_cuda_norm(const mf_kctx *x, const mf_norm_args *p)
{
    if (p->rows <= 0 || p->n <= 0) return;
    mf_by_type(p->type, [&](auto of) {
        mf_by_held(*p, [&](auto w, auto fours) {
            typedef decltype(w) width;
            typedef decltype(of) T;
            constexpr int FOURS = decltype(fours)::each;
            MF_LAUNCH((mf_cu_norm<width::threads, FOURS, T>), width::grid(p->rows),
                      dim3(MF_THREADS), 0, x, x->fault, *p);
        });
    });
}

template <class T>
static void mf_norm_backward_rows(const mf_kctx *x, const mf_norm_args &p, int64_t first,
                                  int64_t count, float2 *kept)
{
    if (count <= 0 || p.n <= 0) return;
    mf_by_held(p, [&](auto w, auto fours) {
        typedef decltype(w) width;
        constexpr int FOURS = decltype(fours)::each;
        MF_LAUNCH((mf_cu_norm_backward<width::threads, FOURS, T>), width::grid(count),
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
        mf_by_columns(mf_norm_fours(p), p.n, [&](auto columns) {
            typedef decltype(columns) C;
            const dim3 grid(mf_grid(p.n, C::all).x,
                            (unsigned)(p.offset ? p.groups : MF_NORM_TILES));
            MF_LAUNCH((mf_cu_norm_columns<C, T>), grid, dim3(MF_THREADS), 0, x, x->fault, p,
                      first, count, kept);
        });
        if (!p.offset)
            MF_LAUNCH(mf_cu_norm_finish, mf_grid(p.n, MF_THREADS), dim3(MF_THREADS), 0, x,
                      x->fault, p, first > 0);
        if (in_place) mf_norm_backward_rows<T>(x, p, first, count, NULL);
    }
}

template <class T> static void mf_norm_add(const mf_kctx *x, const mf_norm_args &p)
{
    const auto launch = [&](auto w, auto fours) {
        constexpr int W = decltype(w)::threads, FOURS = decltype(fours)::each;
        const int64_t blocks = (p.rows + MF_THREADS / W - 1) / (MF_THREADS / W);
        const int tiles = (int)(blocks < MF_SUM_TILES ? blocks : MF_SUM_TILES);
        if (tiles > 0)
            MF_LAUNCH((mf_cu_norm_add<W, FOURS, T>), dim3((unsigned)tiles), dim3(MF_THREADS), 0,
                      x, x->fault, p);
        if (p.dw || p.db || p.sum)
            mf_add_tiles(x, x->fault, p.n, tiles, p.work, p.dw, p.db, p.sum);
    };
    if (p.n <= 0) return;
    if (p.n <= 4 * 4 * MF_WARP)
        launch(mf_width<MF_WARP>(), mf_each_of<4>());
    else if (p.n <= 4 * 6 * MF_WARP)
        launch(mf_width<MF_WARP>(), mf_each_of<6>());
    else if (p.n <= 4 * 2 * MF_THREADS)
        launch(mf_width<MF_THREADS>(), mf_each_of<2>());
    else
        launch(mf_width<MF_THREADS>(), mf_each_of<4>());
}

extern "C" void mf_cuda_norm_backward(const mf_kctx *x, const mf_norm_args *p)
{
    if (p->add || p->copy || p->sum) {
        mf_by_type(p->type, [&](auto of) { mf_norm_add<decltype(of)>(x, *p); });
        return;
    }
    mf_by_type(p->type, [&](auto of) { mf_norm_backward_of<decltype(of)>(x, *p); });
}
