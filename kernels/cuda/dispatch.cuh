/* dispatch.cuh: capacity, reassignment, assignments grouped by expert, and the gradient of
 * combining them. */
#pragma once
#include "base.cuh"
#include "index.cuh"

/* ---- capacity ---- */

/* One block: counts the tokens that are there. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_capacity_of(int64_t tokens, int64_t k, int64_t experts, const float *factor,
                      const float *mask, float *cap)
{
    int64_t here = 0;
    for (int64_t t = threadIdx.x; t < tokens; t += MF_THREADS)
        here += !mask || mask[t] != 0;
    const double real = mf_row<MF_THREADS, mf_add>((double)here);
    /* The small term keeps a quotient that is whole in decimals from being rounded down. */
    double most = (double)factor[0] * real * (double)k / (double)experts;
    most = floor(most * (1 + 0x1p-23));
    for (int64_t e = threadIdx.x; e < experts; e += MF_THREADS)
        cap[e] = most > 1 ? (float)most : 1;
}

/* Whether assignment a comes before b: by falling priority, NaN last, then by index. */
MF_INLINE bool mf_comes_before(const float *priority, int64_t a, int64_t b)
{
    return priority ? mf_before(priority, a, b) : a < b;
}

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_admit_none(const mf_fault *fault, int64_t rows, const int32_t *chosen,
                     int32_t *admitted)
{
    if (mf_failed(fault)) return;
    for (int64_t r = mf_thread(); r < rows; r += mf_threads())
        if (chosen[r] < 0) admitted[r] = -1;
}
/* A block each expert: the rank of an assignment is the number of those that come before it. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_capacity(const mf_fault *fault, const int32_t *offset, const int32_t *list,
                   const float *priority, const float *cap, int32_t *admitted)
{
    const int32_t e = (int32_t)blockIdx.x;
    if (mf_failed(fault)) return;
    const int64_t first = offset[e], end = offset[e + 1];
    for (int64_t p = first + threadIdx.x; p < end; p += MF_THREADS) {
        const int32_t r = list[p];
        int64_t rank = p - first;
        if (priority) {
            rank = 0;
            for (int64_t q = first; q < end; q++)
                rank += mf_before(priority, list[q], r);
        }
        admitted[r] = (float)(rank + 1) <= cap[e] ? e : -1;
    }
}

/* ---- reassignment: one block, since each choice depends on those before ---- */

/* Whether the assignment over capacity a is reassigned before b; -1: none, which is last. */
MF_INLINE bool mf_sooner(const mf_reassign_args &s, int32_t a, int32_t b)
{
    if (a < 0 || b < 0) return a >= 0;
    return s.chosen[a] != s.chosen[b] ? s.chosen[a] < s.chosen[b]
                                      : mf_comes_before(s.importance, a, b);
}
/* The first of the block's assignments in this order; all threads call it. Between two calls
 * the block passes a barrier: a call writes at once what the one before has read last. */
MF_INLINE int32_t mf_soonest(const mf_reassign_args &s, int32_t mine)
{
    MF_SHARED(int32_t, best, [MF_THREADS]);
    const int t = (int)threadIdx.x;
    best[t] = mine;
    for (int d = MF_THREADS / 2; d > 0; d /= 2) {
        __syncthreads();
        if (t < d && mf_sooner(s, best[t + d], best[t])) best[t] = best[t + d];
    }
    __syncthreads();
    return best[0];
}
MF_INLINE bool mf_has(const int32_t *expert, int64_t k, int64_t e)
{
    for (int64_t j = 0; j < k; j++)
        if (expert[j] == e) return true;
    return false;
}
/* The expert with the best score that may take an assignment of token t; -1: none. Barriers as
 * for mf_soonest. */
MF_INLINE int32_t mf_best_expert(const mf_reassign_args &s, int64_t t)
{
    MF_SHARED(double, score, [MF_THREADS]);
    MF_SHARED(int32_t, expert, [MF_THREADS]);
    const int i = (int)threadIdx.x;
    const int32_t *load = (const int32_t *)s.work;
    double mine = 0;
    int32_t best = -1;
    for (int64_t e = i; e < s.experts; e += MF_THREADS) {
        const double v = (double)s.prob[t * s.experts + e] / (1 + load[e]);
        const bool open = (float)(load[e] + 1) <= s.cap[e] &&
                          !mf_has(s.chosen + t * s.k, s.k, e) &&
                          !mf_has(s.out + t * s.k, s.k, e);
        if (open && !isnan(v) && (best < 0 || v > mine)) best = (int32_t)e, mine = v;
    }
    score[i] = mine, expert[i] = best;
    for (int d = MF_THREADS / 2; d > 0; d /= 2) {
        __syncthreads();
        if (i >= d || expert[i + d] < 0) continue;
        if (expert[i] < 0 || score[i + d] > score[i] ||
            (score[i + d] == score[i] && expert[i + d] < expert[i]))
            score[i] = score[i + d], expert[i] = expert[i + d];
    }
    __syncthreads();
    return expert[0];
}

__global__ void __launch_bounds__(MF_THREADS, 1)
    mf_cu_reassign(const mf_fault *fault, mf_reassign_args s)
{
    const int i = (int)threadIdx.x;
    const int64_t rows = s.tokens * s.k;
    int32_t *load = (int32_t *)s.work; /* number of assignments of each expert in out */
    int64_t count = 0;
    int32_t last = -1;
    if (mf_failed(fault)) return;
    for (int64_t e = i; e < s.experts; e += MF_THREADS)
        load[e] = 0;
    __syncthreads();
    for (int64_t r = i; r < rows; r += MF_THREADS) {
        s.out[r] = s.admitted[r];
        if (s.admitted[r] >= 0) atomicAdd(&load[s.admitted[r]], 1);
    }
    /* The barriers of mf_soonest come between writes of `out` and `load` and the reads of
     * mf_best_expert, and the other way round. */
    while (s.most == 0 || count < s.most) {
        int32_t mine = -1;
        for (int32_t r = i; r < rows; r += MF_THREADS) {
            if (s.chosen[r] < 0 || s.admitted[r] >= 0) continue;
            if ((last < 0 || mf_sooner(s, last, r)) && mf_sooner(s, r, mine)) mine = r;
        }
        last = mf_soonest(s, mine);
        if (last < 0) break;
        const int32_t e = mf_best_expert(s, last / s.k);
        if (e < 0) continue;
        if (i == 0) s.out[last] = e, load[e]++;
        count++;
    }
    if (i == 0) s.moved[0] = (float)count;
}

/* ---- assignments grouped by expert ---- */

/* Sorts the assignments of an expert by token; a block each. Equal tokens keep their order. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_sort_by_token(const mf_fault *fault, const int32_t *offset, const int32_t *token,
                        int32_t *order, int32_t *work)
{
    if (mf_failed(fault)) return;
    const int64_t first = offset[blockIdx.x], end = offset[blockIdx.x + 1];
    for (int64_t p = first + threadIdx.x; p < end; p += MF_THREADS) {
        const int32_t r = order[p], t = token[r];
        int64_t rank = 0;
        for (int64_t q = first; q < end; q++) {
            const int32_t other = token[order[q]];
            rank += other < t || (other == t && q < p);
        }
        work[first + rank] = r;
    }
    __syncthreads();
    for (int64_t p = first + threadIdx.x; p < end; p += MF_THREADS)
        order[p] = work[p];
}
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_places(const mf_fault *fault, int64_t rows, int64_t k, const int32_t *token_of_row,
                 const int32_t *order, int32_t *token, int32_t *place)
{
    if (mf_failed(fault)) return;
    for (int64_t p = mf_thread(); p < rows; p += mf_threads()) {
        const int32_t r = order[p];
        if (r >= 0) place[r] = (int32_t)p;
        token[p] = r < 0 ? -1 : token_of_row ? token_of_row[r] : (int32_t)(r / k);
    }
}

/* ---- gradient of combining ---- */

template <int W, class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_combine_grad(const mf_fault *fault, int64_t rows, int64_t k, int64_t d, const T *y,
                       const float *gate, const int32_t *place, const int32_t *token,
                       const float *dout, T *dy, float *dgate)
{
    const int64_t r = mf_my_row<W>();
    const int lane = mf_my_lane<W>();
    if (r >= rows || mf_failed(fault)) return;
    const int64_t t = token ? token[r] : r / k, p = place[r];
    const float share = gate ? gate[r] : 1;
    float dot = 0;
    for (int64_t c = lane; p >= 0 && c < d; c += W) {
        const float from = t >= 0 ? dout[t * d + c] : 0;
        if (dgate && t >= 0) dot += mf_get(y + p * d + c) * from;
        if (dy) mf_put(dy + p * d + c, t >= 0 ? share * from : 0);
    }
    if (!dgate) return;
    dot = mf_row<W, mf_add>(dot);
    if (lane == 0) dgate[r] = dot;
}
/* Each block counts the placed assignments, and has some of the rows after them in turn. */
template <class T>
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_clear_unplaced(const mf_fault *fault, int64_t rows, int64_t d, const int32_t *place,
                         T *dy)
{
    int64_t here = 0;
    if (mf_failed(fault)) return;
    for (int64_t r = threadIdx.x; r < rows; r += MF_THREADS)
        here += place[r] >= 0;
    const int64_t placed = (int64_t)mf_row<MF_THREADS, mf_add>((double)here);
    for (int64_t at = placed * d + mf_thread(); at < rows * d; at += mf_threads())
        dy[at] = (T)0;
}

/* ---- launches ---- */

extern "C" void mf_cuda_capacity_of(const mf_kctx *x, const mf_capacity_of_args *a)
{
    MF_LAUNCH(mf_cu_capacity_of, MF_ONE_BLOCK, x, a->tokens, a->k, a->experts, a->factor,
              a->mask, a->cap);
}

extern "C" void mf_cuda_capacity(const mf_kctx *x, const mf_capacity_args *a)
{
    int32_t *offset = (int32_t *)a->work, *list = offset + a->experts + 1;
    if (a->rows <= 0) return;
    MF_CUDA_RUN(x, index_lists, .m = a->rows, .n = a->experts, .index = a->chosen,
                .offset = offset, .list = list);
    MF_LAUNCH(mf_cu_admit_none, MF_EACH_OF(a->rows), x, x->fault, a->rows, a->chosen,
              a->admitted);
    if (a->experts > 0) /* a grid without blocks is an error */
        MF_LAUNCH(mf_cu_capacity, dim3((unsigned)a->experts), dim3(MF_THREADS), 0, x, x->fault,
                  (const int32_t *)offset, (const int32_t *)list, a->priority, a->cap,
                  a->admitted);
}

extern "C" void mf_cuda_reassign(const mf_kctx *x, const mf_reassign_args *a)
{
    MF_LAUNCH(mf_cu_reassign, MF_ONE_BLOCK, x, x->fault, *a);
}

extern "C" void mf_cuda_group_rows(const mf_kctx *x, const mf_group_rows_args *a)
{
    if (a->rows <= 0) return;
    if (a->token_of_row && a->experts > 0)
        MF_LAUNCH(mf_cu_sort_by_token, dim3((unsigned)a->experts), dim3(MF_THREADS), 0, x,
                  x->fault, a->offset, a->token_of_row, a->order, (int32_t *)a->work);
    MF_LAUNCH(mf_cu_fill_i32, MF_EACH_OF(a->rows), x, x->fault, a->rows, -1, a->place);
    MF_LAUNCH(mf_cu_places, MF_EACH_OF(a->rows), x, x->fault, a->rows, a->k, a->token_of_row,
              (const int32_t *)a->order, a->token, a->place);
}

extern "C" void mf_cuda_combine_grad(const mf_kctx *x, const mf_combine_grad_args *a)
{
    if (a->rows <= 0) return;
    mf_by_type(a->type, [&](auto of) {
        mf_by_width(a->d, [&](auto w) {
            typedef decltype(of) T;
            typedef decltype(w) width;
            MF_LAUNCH((mf_cu_combine_grad<width::threads, T>), width::grid(a->rows),
                      dim3(MF_THREADS), 0, x, x->fault, a->rows, a->k, a->d, (const T *)a->y,
                      a->gate, a->place, a->token, a->dout, (T *)a->dy, a->dgate);
        });
        typedef decltype(of) T;
        if (a->dy && a->d > 0)
            MF_LAUNCH(mf_cu_clear_unplaced<T>, dim3(2u * (unsigned)mf_cuda_processors),
                      dim3(MF_THREADS), 0, x, x->fault, a->rows, a->d, a->place, (T *)a->dy);
    });
}
