/* index.cuh: checks indices and offsets, moves rows and elements by index, and sorts indices
 * by value. An index below 0 stands for no element. After a fault, kernels that use indices
 * do nothing.
 *
 * Counts are integers, so the order in which threads add them does not matter; lists are
 * written in ascending order. */
#pragma once
#include "base.cuh"

/* ---- checks ---- */

MF_INLINE void mf_record(mf_fault *fault, int node, int kind, int what, int64_t index,
                         int64_t value, int64_t lo, int64_t hi)
{
    if (!fault || fault->kind != MF_FAULT_NONE) return;
    fault->what = what, fault->node = node, fault->index = index, fault->value = value;
    fault->lo = lo, fault->hi = hi, fault->kind = kind;
}

/* One block, so that the first fault is found and one thread writes it. It has as many threads
 * as a block can have, each with several loads under way: else a check takes as long as a
 * small gemm. bad(i) says whether element i is at fault; the first such i goes to all threads,
 * or n if there is none. */
constexpr int MF_CHECKERS = 1024, MF_CHECKED = 4;
template <class F> MF_INLINE int64_t mf_first_bad(int64_t n, F bad)
{
    int64_t first = n;
    for (int64_t i = threadIdx.x; i < n && first == n; i += MF_CHECKED * MF_CHECKERS) {
        bool found[MF_CHECKED];
        MF_UNROLL
        for (int k = 0; k < MF_CHECKED; k++) /* behind the end i again, which wins below */
            found[k] = bad(i + k * MF_CHECKERS < n ? i + k * MF_CHECKERS : i);
        MF_UNROLL
        for (int k = MF_CHECKED - 1; k >= 0; k--)
            if (found[k]) first = i + k * MF_CHECKERS;
    }
    return mf_row<MF_CHECKERS, mf_least>(first);
}

__global__ void __launch_bounds__(MF_CHECKERS)
    mf_cu_check_index(mf_fault *fault, int node, int what, int64_t n, const int32_t *index,
                      int64_t lo, int64_t hi)
{
    const int64_t first = mf_first_bad(n, [&](int64_t i) {
        const int32_t v = index[i];
        return (v < lo) | (v >= hi);
    });
    if (threadIdx.x == 0 && first < n)
        mf_record(fault, node, MF_FAULT_RANGE, what, first, index[first], lo, hi);
}

__global__ void __launch_bounds__(MF_CHECKERS)
    mf_cu_check_offset(mf_fault *fault, int node, int64_t groups, const int32_t *offset,
                       int64_t rows)
{
    const int64_t first = mf_first_bad(groups + 1, [&](int64_t e) {
        const int32_t before = e > 0 ? offset[e - 1] : 0, v = offset[e];
        return (v < before) | (v > rows);
    });
    if (threadIdx.x == 0 && first <= groups)
        mf_record(fault, node, MF_FAULT_OFFSET, 0, first, offset[first], 0, rows);
}

/* ---- rows and elements ---- */

/* Rows of d elements, or of as many times 16 bytes, which a thread moves at once. */
template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_gather_rows(const mf_fault *fault, int64_t m, int64_t d, const T *in,
                      const int32_t *index, T *out)
{
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread(); at < m * d; at += mf_threads()) {
        const int64_t i = mf_over(at, d), r = index[i];
        MF_ALIGNED(in, sizeof(T));
        MF_ALIGNED(out, sizeof(T));
        out[at] = r < 0 ? T{} : in[r * d + at - i * d];
    }
}

/* A thread has EACH columns of a row: four, if they can be moved at once, or one. */
template <int EACH, class IN, class OUT>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sum_rows(const mf_fault *fault, int64_t n, int64_t d, int64_t k,
                   const int32_t *offset, const int32_t *list, const int32_t *place,
                   const float *gate, const IN *in, const float *add, OUT *out)
{
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread() * EACH; at < n * d; at += mf_threads() * EACH) {
        const int64_t t = mf_over(at, d), c = at - t * d;
        const int64_t from = offset ? offset[t] : t * k,
                      to = offset ? offset[t + 1] : (t + 1) * k;
        double sum[EACH] = {};
        MF_UNROLL_BY(2)
        for (int64_t q = from; q < to; q++) {
            const int64_t r = list ? list[q] : q, p = place ? place[r] : r;
            if (p < 0) continue;
            const double share = gate ? (double)gate[r] : 1;
            float v[EACH];
            mf_get_each(in + p * d + c, v);
            MF_UNROLL
            for (int i = 0; i < EACH; i++)
                sum[i] += share * v[i];
        }
        float v[EACH] = {};
        if (add) mf_get_each(add + at, v);
        MF_UNROLL
        for (int i = 0; i < EACH; i++)
            v[i] = (float)(sum[i] + v[i]);
        mf_put_each(out + at, v);
    }
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_take(const mf_fault *fault, int64_t n, int64_t width, int64_t k, const float *in,
               const int32_t *index, float *out)
{
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread(); at < n * k; at += mf_threads())
        out[at] = index[at] < 0 ? 0 : in[at / k * width + index[at]];
}

/* A warp each row: zeros first, then one lane adds in the order of j. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_put(const mf_fault *fault, int64_t n, int64_t width, int64_t k, const float *in,
              const int32_t *index, float *out)
{
    const int64_t i = mf_my_row<MF_WARP>();
    const int lane = mf_my_lane<MF_WARP>();
    if (i >= n || mf_failed(fault)) return;
    for (int64_t j = lane; j < width; j += MF_WARP)
        out[i * width + j] = 0;
    __syncwarp();
    for (int64_t j = 0; lane == 0 && j < k; j++) {
        const int32_t at = index[i * k + j];
        if (at >= 0) out[i * width + at] += in[i * k + j];
    }
}

/* Whether element a of a row comes before b: by falling value, NaN last, then by index. */
MF_INLINE bool mf_before(const float *row, int64_t a, int64_t b)
{
    const float u = row[a], v = row[b];
    if (isnan(u) != isnan(v)) return isnan(v);
    if (u != v && !isnan(u)) return u > v;
    return a < b;
}

/* The first element of a row after element `last`; -1: the first of all. A warp calls it. */
MF_INLINE int mf_next_best(const float *row, int64_t width, int64_t last)
{
    int best = -1;
    MF_UNROLL_BY(1)
    for (int64_t c = (int)threadIdx.x % MF_WARP; c < width; c += MF_WARP)
        if ((last < 0 || mf_before(row, last, c)) && (best < 0 || mf_before(row, c, best)))
            best = (int)c;
    MF_UNROLL
    for (int d = MF_WARP / 2; d > 0; d >>= 1) {
        const int other = __shfl_xor_sync(MF_ALL_LANES, best, d);
        if (other >= 0 && (best < 0 || mf_before(row, other, best))) best = other;
    }
    return best;
}

/* A warp each row. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_topk(int64_t n, int64_t width, int64_t k, const float *in, const float *mask,
               int32_t *out)
{
    const int64_t i = mf_my_row<MF_WARP>();
    const int lane = mf_my_lane<MF_WARP>();
    if (i >= n) return;
    const float *row = in + i * width;
    int64_t last = -1;
    for (int64_t j = 0; j < k; j++) {
        last = mf_next_best(row, width, last);
        if (lane == 0) out[i * k + j] = mask && mask[i] == 0 ? -1 : (int32_t)last;
    }
}

/* For many of k: a block each row sorts the indices of all elements in shared memory. */
constexpr int MF_FEW_BEST = 16, MF_MOST_SORTED = 4096;
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_topk_sorted(int64_t width, int64_t k, const float *in, const float *mask,
                      int32_t *out)
{
    MF_SHARED(int32_t, at, [MF_MOST_SORTED]);
    const float *row = in + blockIdx.x * width;
    const int n = (int)width;
    for (int i = (int)threadIdx.x; i < n; i += MF_THREADS)
        at[i] = i;
    for (int size = 2; size / 2 < n; size *= 2)
        for (int d = size / 2; d > 0; d /= 2) { /* as in mf_sort */
            __syncthreads();
            for (int i = (int)threadIdx.x; i / d * 2 * d < n; i += MF_THREADS) {
                const int low = i / d * 2 * d + i % d;
                const int high = d == size / 2 ? i / d * 2 * d + 2 * d - 1 - i % d : low + d;
                if (high >= n || mf_before(row, at[low], at[high])) continue;
                const int32_t moved = at[low];
                at[low] = at[high];
                at[high] = moved;
            }
        }
    __syncthreads();
    for (int64_t j = threadIdx.x; j < k; j += MF_THREADS)
        out[blockIdx.x * k + j] = mask && mask[blockIdx.x] == 0 ? -1 : at[j];
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_one_hot(int64_t m, int64_t n, const int32_t *index, float *out)
{
    for (int64_t at = mf_thread(); at < m * n; at += mf_threads())
        out[at] = index[at / n] == at % n ? 1 : 0;
}

/* ---- counts and lists ---- */

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_fill_i32(const mf_fault *fault, int64_t n, int32_t value, int32_t *out)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        out[i] = value;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_count(const mf_fault *fault, int64_t m, const int32_t *index, int32_t *count)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i < m; i += mf_threads())
        if (index[i] >= 0) atomicAdd(&count[index[i]], 1);
}

/* Counts in offset[1 .. n] become the ends of lists; one block, which has MF_SCANNED counts of
 * each thread in turn. */
constexpr int MF_SCANNERS = 1024, MF_SCANNED = 8;
__global__ void __launch_bounds__(MF_SCANNERS)
    mf_cu_scan(const mf_fault *fault, int64_t n, int32_t *offset)
{
    MF_SHARED(int32_t, ends, [MF_SCANNERS / MF_WARP]);
    const int t = (int)threadIdx.x, lane = t % MF_WARP;
    int32_t before = 0; /* sum of the turns before */
    if (mf_failed(fault)) return;
    for (int64_t turn = 1; turn <= n; turn += MF_SCANNERS * MF_SCANNED) {
        const int64_t from = turn + t * MF_SCANNED;
        int32_t v[MF_SCANNED];
        MF_UNROLL
        for (int k = 0; k < MF_SCANNED; k++) {
            const int32_t count = offset[from + k <= n ? from + k : n];
            v[k] = from + k <= n ? count : 0;
        }
        MF_UNROLL
        for (int k = 1; k < MF_SCANNED; k++)
            v[k] += v[k - 1];
        int32_t end = v[MF_SCANNED - 1]; /* becomes the sum up to this thread, in its warp */
        MF_UNROLL
        for (int d = 1; d < MF_WARP; d *= 2) {
            const int32_t add = __shfl_sync(MF_ALL_LANES, end, lane >= d ? lane - d : lane);
            if (lane >= d) end += add;
        }
        if (lane == MF_WARP - 1) ends[t / MF_WARP] = end;
        __syncthreads();
        int32_t warps = ends[lane]; /* the same over warps */
        MF_UNROLL
        for (int d = 1; d < MF_WARP; d *= 2) {
            const int32_t add = __shfl_sync(MF_ALL_LANES, warps, lane >= d ? lane - d : lane);
            if (lane >= d) warps += add;
        }
        const int32_t own = __shfl_sync(MF_ALL_LANES, warps, t / MF_WARP) - ends[t / MF_WARP];
        const int32_t start = before + own + end - v[MF_SCANNED - 1];
        before += __shfl_sync(MF_ALL_LANES, warps, MF_WARP - 1);
        __syncthreads(); /* `ends` was read */
        MF_UNROLL
        for (int k = 0; k < MF_SCANNED; k++)
            if (from + k <= n) offset[from + k] = start + v[k];
    }
}

/* The i with index[i] = value, ascending, from `list` on. A warp calls it; it reads several
 * indices of each lane at once. */
constexpr int MF_LISTED = 8;
MF_INLINE void mf_list_of(int64_t m, const int32_t *index, int32_t value, int32_t *list)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    for (int64_t first = 0; first < m; first += MF_LISTED * MF_WARP) {
        bool mine[MF_LISTED];
        MF_UNROLL
        for (int k = 0; k < MF_LISTED; k++) {
            const int64_t i = first + k * MF_WARP + lane;
            const int32_t v = index[i < m ? i : m - 1];
            mine[k] = i < m && v == value;
        }
        MF_UNROLL
        for (int k = 0; k < MF_LISTED; k++) {
            const uint32_t all = __ballot_sync(MF_ALL_LANES, mine[k]);
            if (mine[k])
                list[__popc(all & ((1u << lane) - 1))] = (int32_t)(first + k * MF_WARP + lane);
            list += __popc(all);
        }
    }
}

/* A warp each value, if there are few values: the warp reads all indices. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_lists(const mf_fault *fault, int64_t m, int64_t n, const int32_t *index,
                const int32_t *offset, int32_t *list)
{
    const int64_t v = mf_my_row<MF_WARP>();
    if (v < n && !mf_failed(fault)) mf_list_of(m, index, (int32_t)v, list + offset[v]);
}

/* If there are many values: each index takes a place of its list, in any order, and offset[v]
 * moves to the end of list v. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_scatter(const mf_fault *fault, int64_t m, const int32_t *index, int32_t *offset,
                  int32_t *list)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i < m; i += mf_threads())
        if (index[i] >= 0) list[atomicAdd(&offset[index[i]], 1)] = (int32_t)i;
}
/* Moves ends back to beginnings: offset[v + 1] = offset[v], from the last one on; one block. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_shift(const mf_fault *fault, int64_t n, int32_t *offset)
{
    if (mf_failed(fault)) return;
    for (int64_t top = n; top > 0; top -= MF_THREADS) {
        const int64_t v = top - threadIdx.x;
        const int32_t moved = v > 0 ? offset[v - 1] : 0;
        __syncthreads();
        if (v > 0) offset[v] = moved;
        __syncthreads();
    }
    if (threadIdx.x == 0) offset[0] = 0;
}
/* Sorts n numbers in place: a warp calls it. A bitonic network of which all steps go upwards,
 * so that places past the end, as if they held the largest number, need no memory. */
MF_INLINE void mf_sort(int32_t *a, int64_t n)
{
    const int lane = (int)threadIdx.x % MF_WARP;
    for (int64_t k = 2; k / 2 < n; k *= 2)
        for (int64_t d = k / 2; d > 0; d /= 2) {
            const bool flip = d == k / 2; /* pairs the i-th with the i-th from the end */
            __syncwarp();
            for (int64_t i = lane; i / d * 2 * d < n; i += MF_WARP) {
                const int64_t low = i / d * 2 * d + i % d;
                const int64_t high = flip ? i / d * 2 * d + 2 * d - 1 - i % d : low + d;
                if (high >= n || a[low] <= a[high]) continue;
                const int32_t moved = a[low];
                a[low] = a[high];
                a[high] = moved;
            }
        }
    __syncwarp();
}

/* Sorts each list: a warp each, short ones by rank. The warp reads all indices again if that is
 * less work than to sort a long one. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sort_lists(const mf_fault *fault, int64_t m, int64_t n, const int32_t *index,
                     const int32_t *offset, int32_t *list)
{
    const int64_t v = mf_my_row<MF_WARP>();
    const int lane = mf_my_lane<MF_WARP>();
    if (v >= n || mf_failed(fault)) return;
    const int32_t first = offset[v], length = offset[v + 1] - first;
    if (length > MF_WARP) {
        int steps = 0;
        for (int32_t n = length; n > 0; n /= 2)
            steps++;
        if ((int64_t)length * steps * steps / 4 < m)
            mf_sort(list + first, length);
        else
            mf_list_of(m, index, (int32_t)v, list + first);
        return;
    }
    const int32_t mine = lane < length ? list[first + lane] : INT32_MAX;
    int rank = 0;
    for (int l = 0; l < MF_WARP; l++)
        rank += __shfl_sync(MF_ALL_LANES, mine, l) < mine;
    __syncwarp();
    if (lane < length) list[first + rank] = mine;
}
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_no_list(const mf_fault *fault, int64_t m, const int32_t *end, int32_t *list)
{
    if (mf_failed(fault)) return;
    for (int64_t p = *end + mf_thread(); p < m; p += mf_threads())
        list[p] = -1;
}

/* Sums of weights over lists: a warp each value. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_bincount(const mf_fault *fault, int64_t n, const int32_t *offset, const int32_t *list,
                   const float *weight, float *out)
{
    const int64_t v = mf_my_row<MF_WARP>();
    double sum = 0;
    if (v >= n || mf_failed(fault)) return;
    for (int64_t p = offset[v] + mf_my_lane<MF_WARP>(); p < offset[v + 1]; p += MF_WARP)
        sum += weight[list[p]];
    sum = mf_warp<mf_add>(sum);
    if (mf_my_lane<MF_WARP>() == 0) out[v] = (float)sum;
}
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_counted(const mf_fault *fault, int64_t n, const int32_t *count, float *out)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        out[i] = (float)count[i];
}
/* Without memory for lists: a thread each value reads all indices. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_bincount_slow(const mf_fault *fault, int64_t m, int64_t n, const int32_t *index,
                        const float *weight, float *out)
{
    const int64_t v = mf_thread();
    double sum = 0;
    if (v >= n || mf_failed(fault)) return;
    for (int64_t i = 0; i < m; i++)
        if (index[i] == v) sum += weight[i];
    out[v] = (float)sum;
}

__global__ void mf_cu_bin_range(const mf_fault *fault, int64_t experts, int64_t bins, double lo,
                                double hi, const float *bias, mf_bin_range *range)
{
    if (mf_thread() == 0 && !mf_failed(fault))
        *range = mf_bin_range_of(experts, bins, lo, hi, bias);
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_score_bins(const mf_fault *fault, int64_t n, int64_t experts, int64_t bins,
                     const float *in, const float *mask, const mf_bin_range *range,
                     int32_t *count)
{
    if (mf_failed(fault)) return;
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        if (!mask || mask[i / experts] != 0)
            atomicAdd(&count[i % experts * bins + mf_bin_of(in[i], *range, bins)], 1);
}

/* ---- launches ---- */

#define MF_EACH_OF(n)  mf_grid(n, MF_THREADS), dim3(MF_THREADS), 0
#define MF_ONE_BLOCK   dim3(1), dim3(MF_THREADS), 0
#define MF_CHECKING    dim3(1), dim3(MF_CHECKERS), 0
#define MF_WARPS_OF(n) mf_grid(n, MF_THREADS / MF_WARP), dim3(MF_THREADS), 0

extern "C" void mf_cuda_check_index(const mf_kctx *x, const mf_check_index_args *a)
{
    if (a->n > 0)
        MF_LAUNCH(mf_cu_check_index, MF_CHECKING, x, x->fault, x->node, a->what, a->n, a->index,
                  a->lo, a->hi);
}
extern "C" void mf_cuda_check_offset(const mf_kctx *x, const mf_check_offset_args *a)
{
    MF_LAUNCH(mf_cu_check_offset, MF_CHECKING, x, x->fault, x->node, a->groups, a->offset,
              a->rows);
}

extern "C" void mf_cuda_gather_rows(const mf_kctx *x, const mf_gather_rows_args *a)
{
    const int64_t bytes = a->d * mf_cast_size(a->type);
    if (a->m * a->d <= 0) return;
    if (bytes % 16 == 0 && mf_aligned(MF_CAST_F32, a->in, a->out)) {
        const int64_t units = bytes / 16;
        MF_LAUNCH(mf_cu_gather_rows<float4>, MF_EACH_OF(a->m * units), x, x->fault, a->m, units,
                  (const float4 *)a->in, a->index, (float4 *)a->out);
        return;
    }
    mf_by_type(a->type, [&](auto of) {
        typedef decltype(of) T;
        MF_LAUNCH(mf_cu_gather_rows<T>, MF_EACH_OF(a->m * a->d), x, x->fault, a->m, a->d,
                  (const T *)a->in, a->index, (T *)a->out);
    });
}

extern "C" void mf_cuda_sum_rows(const mf_kctx *x, const mf_sum_rows_args *a)
{
    if (a->n * a->d <= 0) return;
    mf_by_type(a->type_in, [&](auto of_in) {
        mf_by_type(a->type_out, [&](auto of_out) {
            typedef decltype(of_in) IN;
            typedef decltype(of_out) OUT;
            mf_by_each(a->d % 4 == 0 && mf_aligned(a->type_in, a->in) &&
                           mf_aligned(a->type_out, a->out) && mf_aligned(MF_CAST_F32, a->add),
                       [&](auto each) {
                           constexpr int EACH = decltype(each)::each;
                           MF_LAUNCH((mf_cu_sum_rows<EACH, IN, OUT>),
                                     MF_EACH_OF(a->n * a->d / EACH), x, x->fault, a->n, a->d,
                                     a->k, a->offset, a->list, a->place, a->gate,
                                     (const IN *)a->in, a->add, (OUT *)a->out);
                       });
        });
    });
}

extern "C" void mf_cuda_take(const mf_kctx *x, const mf_take_args *a)
{
    if (a->n * a->k > 0)
        MF_LAUNCH(mf_cu_take, MF_EACH_OF(a->n * a->k), x, x->fault, a->n, a->width, a->k, a->in,
                  a->index, a->out);
}
extern "C" void mf_cuda_put(const mf_kctx *x, const mf_put_args *a)
{
    if (a->n > 0)
        MF_LAUNCH(mf_cu_put, MF_WARPS_OF(a->n), x, x->fault, a->n, a->width, a->k, a->in,
                  a->index, a->out);
}
extern "C" void mf_cuda_topk(const mf_kctx *x, const mf_topk_args *a)
{
    if (a->n <= 0 || a->k <= 0) return;
    if (a->k > MF_FEW_BEST && a->width <= MF_MOST_SORTED)
        MF_LAUNCH(mf_cu_topk_sorted, dim3((unsigned)a->n), dim3(MF_THREADS), 0, x, a->width,
                  a->k, a->in, a->mask, a->out);
    else
        MF_LAUNCH(mf_cu_topk, MF_WARPS_OF(a->n), x, a->n, a->width, a->k, a->in, a->mask,
                  a->out);
}
extern "C" void mf_cuda_one_hot(const mf_kctx *x, const mf_one_hot_args *a)
{
    if (a->m * a->n > 0)
        MF_LAUNCH(mf_cu_one_hot, MF_EACH_OF(a->m * a->n), x, a->m, a->n, a->index, a->out);
}

extern "C" void mf_cuda_index_lists(const mf_kctx *x, const mf_index_lists_args *a)
{
    const bool few = a->n <= 1024;
    MF_LAUNCH(mf_cu_fill_i32, MF_EACH_OF(a->n + 1), x, x->fault, a->n + 1, 0, a->offset);
    if (a->m <= 0) return;
    MF_LAUNCH(mf_cu_count, MF_EACH_OF(a->m), x, x->fault, a->m, a->index, a->offset + 1);
    MF_LAUNCH(mf_cu_scan, dim3(1), dim3(MF_SCANNERS), 0, x, x->fault, a->n, a->offset);
    if (few)
        MF_LAUNCH(mf_cu_lists, MF_WARPS_OF(a->n), x, x->fault, a->m, a->n, a->index, a->offset,
                  a->list);
    else {
        MF_LAUNCH(mf_cu_scatter, MF_EACH_OF(a->m), x, x->fault, a->m, a->index, a->offset,
                  a->list);
        MF_LAUNCH(mf_cu_shift, MF_ONE_BLOCK, x, x->fault, a->n, a->offset);
        MF_LAUNCH(mf_cu_sort_lists, MF_WARPS_OF(a->n), x, x->fault, a->m, a->n, a->index,
                  a->offset, a->list);
    }
    MF_LAUNCH(mf_cu_no_list, MF_EACH_OF(a->m), x, x->fault, a->m, a->offset + a->n, a->list);
}

extern "C" void mf_cuda_bincount(const mf_kctx *x, const mf_bincount_args *a)
{
    int32_t *count = (int32_t *)a->work;
    if (a->n <= 0) return;
    if (!a->weight) {
        MF_LAUNCH(mf_cu_fill_i32, MF_EACH_OF(a->n), x, x->fault, a->n, 0, count);
        if (a->m > 0)
            MF_LAUNCH(mf_cu_count, MF_EACH_OF(a->m), x, x->fault, a->m, a->index, count);
        MF_LAUNCH(mf_cu_counted, MF_EACH_OF(a->n), x, x->fault, a->n, (const int32_t *)count,
                  a->out);
        return;
    }
    int32_t *offset = (int32_t *)mf_cuda_scratch(x, (size_t)(a->n + 1 + a->m) * sizeof *offset);
    if (!offset) {
        MF_LAUNCH(mf_cu_bincount_slow, MF_EACH_OF(a->n), x, x->fault, a->m, a->n, a->index,
                  a->weight, a->out);
        return;
    }
    MF_CUDA_RUN(x, index_lists, .m = a->m, .n = a->n, .index = a->index, .offset = offset,
                .list = offset + a->n + 1);
    MF_LAUNCH(mf_cu_bincount, MF_WARPS_OF(a->n), x, x->fault, a->n, (const int32_t *)offset,
              (const int32_t *)offset + a->n + 1, a->weight, a->out);
}

extern "C" void mf_cuda_score_bins(const mf_kctx *x, const mf_score_bins_args *a)
{
    const int64_t n = a->experts * a->bins, rows = a->tokens * a->experts;
    mf_bin_range *range = (mf_bin_range *)a->work;
    int32_t *count = (int32_t *)(range + 1);
    if (n <= 0) return;
    MF_LAUNCH(mf_cu_fill_i32, MF_EACH_OF(n), x, x->fault, n, 0, count);
    MF_LAUNCH(mf_cu_bin_range, MF_ONE_BLOCK, x, x->fault, a->experts, a->bins, a->lo, a->hi,
              a->bias, range);
    if (rows > 0)
        MF_LAUNCH(mf_cu_score_bins, MF_EACH_OF(rows), x, x->fault, rows, a->experts, a->bins,
                  a->in, a->mask, (const mf_bin_range *)range, count);
    MF_LAUNCH(mf_cu_counted, MF_EACH_OF(n), x, x->fault, n, (const int32_t *)count, a->out);
}
