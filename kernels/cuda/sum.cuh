/* sum.cuh: sums over one dimension, over groups of rows, and of squares. Sums are in double,
 * and in an order that the shape alone decides. */
#pragma once
#include "base.cuh"

constexpr int MF_COLUMNS = 32, MF_LANES = MF_THREADS / MF_COLUMNS;

/* Adds the sums of the threads of one column, which are MF_COLUMNS apart. Thread 0 of a column
 * gets the sum. All threads of the block call it. */
MF_INLINE double mf_column(double sum)
{
    MF_SHARED(double, part, [MF_LANES][MF_COLUMNS]);
    const int column = (int)threadIdx.x % MF_COLUMNS, lane = (int)threadIdx.x / MF_COLUMNS;
    __syncthreads(); /* of an earlier call: its results were read */
    part[lane][column] = sum;
    __syncthreads();
    if (lane > 0) return 0;
    for (int l = 1; l < MF_LANES; l++)
        sum += part[l][column];
    return sum;
}

/* One partial sum of column i of matrix o: over chunk c, which has `chunk` rows. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sum3_columns(int64_t n, int64_t inner, int64_t chunk, double scale, const float *in,
                       float *out, double *work)
{
    const int64_t i = (int64_t)blockIdx.x * MF_COLUMNS + threadIdx.x % MF_COLUMNS;
    const int64_t chunks = (n + chunk - 1) / chunk, o = blockIdx.z;
    for (int64_t c = blockIdx.y; c < (chunks > 0 ? chunks : 1); c += gridDim.y) {
        const int64_t end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
        double sum = 0;
        for (int64_t j = c * chunk + threadIdx.x / MF_COLUMNS; i < inner && j < end;
             j += MF_LANES)
            sum += in[(o * n + j) * inner + i];
        sum = mf_column(sum);
        if (threadIdx.x / MF_COLUMNS > 0 || i >= inner) continue;
        if (work)
            work[(o * chunks + c) * inner + i] = sum;
        else
            out[o * inner + i] = (float)(scale * sum);
    }
}

/* The same where a row of n numbers is one sum: a warp or a block each chunk. */
template <int W>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sum3_rows(int64_t outer, int64_t n, int64_t chunk, double scale, const float *in,
                    float *out, double *work)
{
    const int64_t chunks = n > chunk ? (n + chunk - 1) / chunk : 1, r = mf_my_row<W>();
    if (r >= outer * chunks) return;
    const int64_t o = r / chunks, c = r % chunks;
    const int64_t end = (c + 1) * chunk < n ? (c + 1) * chunk : n;
    double sum = 0;
    for (int64_t j = c * chunk + mf_my_lane<W>(); j < end; j += W)
        sum += in[o * n + j];
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

template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_group_sum(const mf_fault *fault, int64_t n, const int32_t *offset, const T *a,
                    float *y)
{
    const int64_t j = (int64_t)blockIdx.x * MF_COLUMNS + threadIdx.x % MF_COLUMNS;
    const int64_t e = blockIdx.y;
    if (mf_failed(fault)) return;
    double sum = 0;
    for (int64_t r = offset[e] + threadIdx.x / MF_COLUMNS; j < n && r < offset[e + 1];
         r += MF_LANES)
        sum += mf_get(a + r * n + j);
    sum = mf_column(sum);
    if (threadIdx.x / MF_COLUMNS == 0 && j < n) y[e * n + j] = (float)sum;
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

extern "C" void mf_cuda_sum3(const mf_kctx *x, int64_t outer, int64_t n, int64_t inner,
                             double scale, const float *in, float *out, void *work)
{
    const int64_t chunk = mf_sum3_chunk(inner),
                  chunks = n > chunk ? (n + chunk - 1) / chunk : 1;
    double *parts = chunks > 1 ? (double *)work : NULL;
    if (outer * inner <= 0) return;
    if (inner == 1)
        mf_by_width(n < chunk ? n : chunk, [&](auto w) {
            typedef decltype(w) width;
            MF_LAUNCH(mf_cu_sum3_rows<width::threads>, width::grid(outer * chunks),
                      dim3(MF_THREADS), 0, x, outer, n, chunk, scale, in, out, parts);
        });
    else
        for (int64_t o = 0; o < outer; o += MF_MOST_Z) {
            /* As many blocks as run at once: each has the other chunks in turn. */
            dim3 grid(mf_grid(inner, MF_COLUMNS).x, 1, mf_most_z(outer - o));
            const int64_t most =
                1 + 16 * (int64_t)mf_cuda_processors / ((int64_t)grid.x * grid.z);
            grid.y = mf_most_z(chunks < most ? chunks : most);
            MF_LAUNCH(mf_cu_sum3_columns, grid, dim3(MF_THREADS), 0, x, n, inner, chunk, scale,
                      in + o * n * inner, out + o * inner,
                      parts ? parts + o * chunks * inner : NULL);
        }
    if (parts)
        MF_LAUNCH(mf_cu_sum3_finish, mf_grid(outer * inner, MF_THREADS), dim3(MF_THREADS), 0, x,
                  outer, chunks, inner, scale, parts, out);
}

extern "C" void mf_cuda_group_sum(const mf_kctx *x, int type, int64_t groups, int64_t rows,
                                  int64_t n, const int32_t *offset, const void *a, float *y)
{
    (void)rows;
    if (groups * n <= 0) return;
    mf_by_type(type, [&](auto of) {
        typedef decltype(of) T;
        MF_LAUNCH(mf_cu_group_sum<T>, dim3(mf_grid(n, MF_COLUMNS).x, (unsigned)groups),
                  dim3(MF_THREADS), 0, x, x->fault, n, offset, (const T *)a, y);
    });
}

extern "C" void mf_cuda_sumsq(const mf_kctx *x, int64_t count, const float *a, bool add,
                              double *sum, void *work)
{
    MF_LAUNCH(mf_cu_sumsq, dim3(MF_SUMSQ_TILES), dim3(MF_THREADS), 0, x, count, a,
              (double *)work);
    MF_LAUNCH(mf_cu_sumsq_finish, dim3(1), dim3(MF_SUMSQ_TILES), 0, x, add,
              (const double *)work, sum);
}
