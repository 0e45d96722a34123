/* sum.cuh: sums over one dimension, over groups of rows, and of squares. Sums are in double,
 * and in an order that the shape alone decides. */
#pragma once
#include "base.cuh"

/* How a block sums columns: ACROSS threads next to each other have EACH columns of a row each,
 * four at once if rows allow it; the others have the rows after it. */
template <int EACH, int ACROSS> struct mf_columns {
    enum { each = EACH, across = ACROSS, all = EACH * ACROSS, rows = MF_THREADS / ACROSS };
};
constexpr int MF_COLUMNS = 32;
typedef mf_columns<1, MF_COLUMNS> mf_single_columns;
typedef mf_columns<4, MF_COLUMNS / 4> mf_wide_columns;
typedef mf_columns<4, 2> mf_few_columns; /* up to 8, as of experts */

/* The first column of this thread, and its row within the block. */
template <class C> MF_INLINE int64_t mf_my_column()
{
    return (int64_t)blockIdx.x * C::all + threadIdx.x % C::across * C::each;
}
template <class C> MF_INLINE int mf_my_lane_of_column()
{
    return (int)threadIdx.x / C::across;
}
/* Adds the sums of the threads that have the same columns. A thread gets the sum of the column
 * mf_summed_column. All threads of the block call it. */
template <class C> MF_INLINE double mf_column(double (&sum)[C::each])
{
    MF_SHARED(double, part, [MF_THREADS / MF_WARP][C::all]);
    const int lane = (int)threadIdx.x % MF_WARP, t = (int)threadIdx.x;
    MF_UNROLL
    for (int i = 0; i < C::each; i++)
        MF_UNROLL
    for (int d = C::across; d < MF_WARP; d *= 2)
        sum[i] += __shfl_xor_sync(MF_ALL_LANES, sum[i], d);
    __syncthreads(); /* of an earlier call: its results were read */
    MF_UNROLL
    for (int i = 0; i < C::each; i++)
        if (lane < C::across) part[t / MF_WARP][i * C::across + lane] = sum[i];
    __syncthreads();
    if (t >= C::all) return 0;
    double total = part[0][t];
    for (int w = 1; w < MF_THREADS / MF_WARP; w++)
        total += part[w][t];
    return total;
}
/* The column of which this thread has the sum, or n. */
template <class C> MF_INLINE int64_t mf_summed_column(int64_t n)
{
    const int t = (int)threadIdx.x;
    const int64_t i = (int64_t)blockIdx.x * C::all + t % C::across * C::each + t / C::across;
    return t < C::all && i < n ? i : n;
}

/* Adds partial sums of n columns of up to three arrays, part [3, MF_SUM_TILES, n], of which the
 * first `tiles` tiles exist; blockIdx.y chooses the array. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_add_tiles(const mf_fault *fault, int64_t n, int tiles, const float *part, float *to0,
                    float *to1, float *to2)
{
    typedef mf_single_columns C;
    const int64_t j = mf_my_column<C>(), of = mf_summed_column<C>(n);
    float *const to = blockIdx.y == 0 ? to0 : blockIdx.y == 1 ? to1 : to2;
    double sum[1] = {};
    if (!to || mf_failed(fault)) return;
    part += (int64_t)blockIdx.y * MF_SUM_TILES * n;
    MF_UNROLL_BY(4)
    for (int i = mf_my_lane_of_column<C>(); i < tiles; i += C::rows)
        sum[0] += j < n ? part[i * n + j] : 0;
    const double total = mf_column<C>(sum);
    if (of < n) to[of] = (float)total;
}
static inline void mf_add_tiles(const mf_kctx *x, const mf_fault *fault, int64_t n, int tiles,
                                const void *part, float *to0, float *to1, float *to2)
{
    const unsigned arrays = to2 ? 3 : to1 ? 2 : 1;
    MF_LAUNCH(mf_cu_add_tiles, dim3(mf_grid(n, MF_COLUMNS).x, arrays), dim3(MF_THREADS), 0, x,
              fault, n, tiles, (const float *)part, to0, to1, to2);
}

/* One partial sum of column i of matrix o: over chunk c, which has `chunk` rows. */
template <class C, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sum3_columns(int64_t n, int64_t inner, int64_t chunk, double scale, const T *in,
                       float *out, double *work)
{
    const int64_t i = mf_my_column<C>(), of = mf_summed_column<C>(inner);
    const int64_t chunks = (n + chunk - 1) / chunk, o = blockIdx.z;
    for (int64_t c = blockIdx.y; c < (chunks > 0 ? chunks : 1); c += gridDim.y) {
        const int64_t end = i >= inner ? 0 : (c + 1) * chunk < n ? (c + 1) * chunk : n;
        double sum[C::each] = {};
        MF_UNROLL_BY(4)
        for (int64_t j = c * chunk + mf_my_lane_of_column<C>(); j < end; j += C::rows) {
            float v[C::each];
            mf_get_each(in + (o * n + j) * inner + i, v);
            MF_UNROLL
            for (int k = 0; k < C::each; k++)
                sum[k] += v[k];
        }
        const double total = mf_column<C>(sum);
        if (of >= inner) continue;
        if (work)
            work[(o * chunks + c) * inner + of] = total;
        else
            out[o * inner + of] = (float)(scale * total);
    }
}

/* The same where a row of n numbers is one sum: a warp or a block each chunk. */
template <int W, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sum3_rows(int64_t outer, int64_t n, int64_t chunk, double scale, const T *in,
                    float *out, double *work)
{
    const int64_t chunks = n > chunk ? (n + chunk - 1) / chunk : 1, r = mf_my_row<W>();
    if (r >= outer * chunks) return;
    const int64_t o = r / chunks, c = r % chunks;
    const int64_t end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    double sum = 0;
    for (int64_t j = c * chunk + mf_my_lane<W>(); j < end; j += W)
        sum += mf_get(in + o * n + j);
    sum = mf_row<W, mf_add>(sum);
    if (mf_my_lane<W>() > 0) return;
    if (work)
        work[r] = sum;
    else
        out[o] = (float)(scale * sum);
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sum3_finish(int64_t outer, int64_t chunks, int64_t inner, double scale,
                      const double *work, float *out)
{
    const int64_t at = mf_thread();
    if (at >= outer * inner) return;
    const int64_t o = at / inner, i = at % inner;
    double sum = 0;
    for (int64_t c = 0; c < chunks; c++)
        sum += work[(o * chunks + c) * inner + i];
    out[at] = (float)(scale * sum);
}

template <class C, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_group_sum(const mf_fault *fault, int64_t n, const int32_t *offset, const T *a,
                    float *y)
{
    const int64_t j = mf_my_column<C>(), of = mf_summed_column<C>(n), e = blockIdx.y;
    if (mf_failed(fault)) return;
    const int64_t end = j < n ? offset[e + 1] : 0;
    double sum[C::each] = {};
    MF_UNROLL_BY(4)
    for (int64_t r = offset[e] + mf_my_lane_of_column<C>(); r < end; r += C::rows) {
        float v[C::each];
        mf_get_each(a + r * n + j, v);
        MF_UNROLL
        for (int k = 0; k < C::each; k++)
            sum[k] += v[k];
    }
    const double total = mf_column<C>(sum);
    if (of < n) y[e * n + of] = (float)total;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sumsq(int64_t n, const float *a, double *work)
{
    double sum = 0;
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        sum += (double)a[i] * a[i];
    sum = mf_row<MF_THREADS, mf_add>(sum);
    if (threadIdx.x == 0) work[blockIdx.x] = sum;
}
/* One block, of as many threads as there are terms. */
__global__ void __launch_bounds__(MF_SUMSQ_TILES)
    mf_cu_sumsq_finish(bool add, const double *work, double *sum)
{
    const double total = mf_row<MF_SUMSQ_TILES, mf_add>(work[threadIdx.x]);
    if (threadIdx.x == 0) sum[0] = add ? sum[0] + total : total;
}

/* ---- launches ---- */

/* Calls fn with the columns of a block for rows of n numbers. */
template <class F> static inline void mf_by_columns(bool four, int64_t n, F fn)
{
    if (!four)
        fn(mf_single_columns());
    else if (n <= mf_few_columns::all)
        fn(mf_few_columns());
    else
        fn(mf_wide_columns());
}

extern "C" void mf_cuda_sum3(const mf_kctx *x, const mf_sum3_args *a)
{
    const int64_t chunk = mf_sum3_chunk(a->inner),
                  chunks = a->n > chunk ? (a->n + chunk - 1) / chunk : 1;
    double *parts = chunks > 1 ? (double *)a->work : NULL;
    if (a->outer * a->inner <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        typedef decltype(of) T;
        const T *in = (const T *)a->in;
        if (a->inner == 1)
            mf_by_width(a->n < chunk ? a->n : chunk, [&](auto w) {
                typedef decltype(w) width;
                MF_LAUNCH((mf_cu_sum3_rows<width::threads, T>), width::grid(a->outer * chunks),
                          dim3(MF_THREADS), 0, x, a->outer, a->n, chunk, a->scale, in, a->out,
                          parts);
            });
        else
            mf_by_columns(
                a->inner % 4 == 0 && mf_aligned(a->type, in), a->inner, [&](auto columns) {
                    typedef decltype(columns) C;
                    for (int64_t o = 0; o < a->outer; o += MF_MOST_Z) {
                        /* As many blocks as run at once: each has the other chunks in turn. */
                        dim3 grid(mf_grid(a->inner, C::all).x, 1, mf_most_z(a->outer - o));
                        const int64_t most =
                            1 + 16 * (int64_t)mf_cuda_processors / ((int64_t)grid.x * grid.z);
                        grid.y = mf_most_z(chunks < most ? chunks : most);
                        MF_LAUNCH((mf_cu_sum3_columns<C, T>), grid, dim3(MF_THREADS), 0, x,
                                  a->n, a->inner, chunk, a->scale, in + o * a->n * a->inner,
                                  a->out + o * a->inner,
                                  parts ? parts + o * chunks * a->inner : NULL);
                    }
                });
    });
    if (parts)
        MF_LAUNCH(mf_cu_sum3_finish, mf_grid(a->outer * a->inner, MF_THREADS), dim3(MF_THREADS),
                  0, x, a->outer, chunks, a->inner, a->scale, parts, a->out);
}

extern "C" void mf_cuda_group_sum(const mf_kctx *x, const mf_group_sum_args *a)
{
    if (a->groups * a->n <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        mf_by_columns(a->n % 4 == 0 && mf_aligned(a->type, a->a), a->n, [&](auto columns) {
            typedef decltype(of) T;
            typedef decltype(columns) C;
            MF_LAUNCH((mf_cu_group_sum<C, T>),
                      dim3(mf_grid(a->n, C::all).x, (unsigned)a->groups), dim3(MF_THREADS), 0,
                      x, x->fault, a->n, a->offset, (const T *)a->a, a->y);
        });
    });
}

/* The same tiles for each range of a table, blockIdx.y. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sumsq_ranges(int64_t ranges, const mf_update_range *range, const float *a,
                       double *work)
{
    for (int64_t r = blockIdx.y; r < ranges; r += gridDim.y) {
        const float *from = a + range[r].first;
        const int64_t n = range[r].count;
        double sum = 0;
        for (int64_t i = mf_thread(); i < n; i += mf_threads())
            sum += (double)from[i] * from[i];
        sum = mf_row<MF_THREADS, mf_add>(sum);
        if (threadIdx.x == 0) work[r * MF_SUMSQ_TILES + blockIdx.x] = sum;
    }
}
/* One block: a warp each range in turn, with the sums of mf_row in their order; then one thread
 * adds the ranges. So the bits are those of a call for each range. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sumsq_ranges_finish(int64_t ranges, bool add, double *work, double *sum)
{
    constexpr int PARTS = MF_SUMSQ_TILES / MF_WARP;
    const int lane = (int)threadIdx.x % MF_WARP;
    for (int64_t r = threadIdx.x / MF_WARP; r < ranges; r += MF_THREADS / MF_WARP) {
        double *of = work + r * MF_SUMSQ_TILES, total = 0;
        MF_UNROLL
        for (int i = 0; i < PARTS; i++) {
            const double part = mf_warp<mf_add>(of[i * MF_WARP + lane]);
            if (lane % PARTS == i) total = part;
        }
        MF_UNROLL
        for (int d = PARTS / 2; d > 0; d >>= 1)
            total += __shfl_xor_sync(MF_ALL_LANES, total, d);
        if (lane == 0) of[0] = total;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    double total = add ? sum[0] : 0;
    for (int64_t r = 0; r < ranges; r++)
        total = add || r > 0 ? total + work[r * MF_SUMSQ_TILES] : work[r * MF_SUMSQ_TILES];
    sum[0] = total;
}
extern "C" void mf_cuda_sumsq(const mf_kctx *x, const mf_sumsq_args *a)
{
    if (a->range && a->ranges > 0) {
        const unsigned by = a->ranges < 0xffff ? (unsigned)a->ranges : 0xffffu;
        MF_LAUNCH(mf_cu_sumsq_ranges, dim3(MF_SUMSQ_TILES, by), dim3(MF_THREADS), 0, x,
                  a->ranges, a->range, a->a, (double *)a->work);
        MF_LAUNCH(mf_cu_sumsq_ranges_finish, dim3(1), dim3(MF_THREADS), 0, x, a->ranges, a->add,
                  (double *)a->work, a->sum);
        return;
    }
    MF_LAUNCH(mf_cu_sumsq, dim3(MF_SUMSQ_TILES), dim3(MF_THREADS), 0, x, a->count, a->a,
              (double *)a->work);
    MF_LAUNCH(mf_cu_sumsq_finish, dim3(1), dim3(MF_SUMSQ_TILES), 0, x, a->add,
              (const double *)a->work, a->sum);
}
