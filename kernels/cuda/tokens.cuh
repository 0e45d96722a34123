/* tokens.cuh: embeddings, rotary positions, and appending to a cache of keys and values. */
#pragma once
#include "base.cuh"
#include "index.cuh"

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_embedding(const mf_fault *fault, int64_t n, int64_t count, const float *table,
                    const int32_t *ids, float *y)
{
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread(); at < count * n; at += mf_threads())
        y[at] = table[ids[at / n] * n + at % n];
}

/* A block each row of the table, over the list of the positions of its id. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_embedding_grad(const mf_fault *fault, int64_t n, bool add, const int32_t *offset,
                         const int32_t *list, const float *dy, float *dtable)
{
    const int64_t v = blockIdx.x;
    if (mf_failed(fault)) return;
    const int32_t first = offset[v], end = offset[v + 1];
    if (add && first == end) return;
    for (int64_t j = threadIdx.x; j < n; j += MF_THREADS) {
        double sum = add ? dtable[v * n + j] : 0;
        for (int32_t p = first; p < end; p++)
            sum += dy[(int64_t)list[p] * n + j];
        dtable[v * n + j] = (float)sum;
    }
}

/* ---- rotary positions ---- */

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_copy(int64_t n, const float *from, float *to)
{
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        to[i] = from[i];
}

/* A thread each pair of columns of a row, in all heads. The angle is reduced to (-pi, pi] in
 * double, where f32 functions are exact enough at any position. */
__global__ void __launch_bounds__(MF_THREADS) mf_cu_rope(mf_rope_args p)
{
    const int64_t pairs = p.turned / 2, at = mf_thread(), r = at / pairs, i = at % pairs;
    if (r >= p.rows) return;
    double turn = p.position[r] * pow(p.theta, -2.0 * (double)i / (double)p.turned) *
                  (p.factor ? (double)p.factor[i] : 1) / 3.14159265358979323846;
    turn -= 2 * rint(turn / 2);
    const float magnitude = (float)p.magnitude;
    const float c = magnitude * cospif((float)turn);
    const float s = magnitude * sinpif((float)(p.inverse ? -turn : turn));
    float *y = p.y + r * p.width + p.first;
    const bool both = !p.half && (uintptr_t)y % 8 == 0 && p.head_dim % 2 == 0;
    MF_UNROLL_BY(1) /* else nvcc spills registers */
    for (int64_t h = 0; h < p.n_heads; h++, y += p.head_dim) {
        float *low = y + (p.half ? i : 2 * i), *high = p.half ? low + pairs : low + 1;
        if (both) { /* moved at once */
            MF_ALIGNED(low, 8);
            const float2 q = *(const float2 *)low;
            MF_ALIGNED(low, 8);
            *(float2 *)low = make_float2(q.x * c - q.y * s, q.x * s + q.y * c);
            continue;
        }
        const float u = *low, v = *high;
        *low = u * c - v * s;
        *high = u * s + v * c;
    }
}

/* ---- cache ---- */

/* One block: records the first sequence whose rows do not fit. */
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_check_cache(mf_fault *fault, int node, int64_t batch, int64_t s, int64_t t,
                      const int32_t *pos)
{
    int64_t first = batch;
    for (int64_t b = threadIdx.x; b < batch && first == batch; b += MF_THREADS)
        if (pos[b] < 0 || pos[b] > s - t) first = b;
    first = mf_row<MF_THREADS, mf_least>(first);
    if (threadIdx.x == 0 && first < batch)
        mf_record(fault, node, MF_FAULT_CACHE, 0, first, pos[first], t, s);
}
__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_cache_append(const mf_fault *fault, int64_t batch, int64_t s, int64_t t, int64_t n,
                       const int32_t *pos, const float *a, float *cache)
{
    if (mf_failed(fault)) return;
    for (int64_t at = mf_thread(); at < batch * t * n; at += mf_threads()) {
        const int64_t b = at / (t * n);
        cache[(b * s + pos[b]) * n + at % (t * n)] = a[at];
    }
}

/* ---- launches ---- */

extern "C" void mf_cuda_embedding(const mf_kctx *x, int64_t vocab, int64_t n, int64_t count,
                                  const float *table, const int32_t *ids, float *y)
{
    (void)vocab;
    if (n * count > 0)
        MF_LAUNCH(mf_cu_embedding, MF_EACH_OF(n * count), x, x->fault, n, count, table, ids, y);
}

extern "C" void mf_cuda_embedding_grad(const mf_kctx *x, int64_t vocab, int64_t n,
                                       int64_t count, bool add, const int32_t *ids,
                                       const float *dy, float *dtable, void *work)
{
    int32_t *offset = (int32_t *)work, *list = offset + vocab + 1;
    if (vocab * n <= 0) return;
    mf_cuda_index_lists(x, count, vocab, ids, offset, list);
    MF_LAUNCH(mf_cu_embedding_grad, dim3((unsigned)vocab), dim3(MF_THREADS), 0, x, x->fault, n,
              add, (const int32_t *)offset, (const int32_t *)list, dy, dtable);
}

extern "C" void mf_cuda_rope(const mf_kctx *x, const mf_rope_args *p)
{
    const int64_t n = p->rows * p->width;
    if (n <= 0) return;
    if (p->y != p->a) MF_LAUNCH(mf_cu_copy, MF_EACH_OF(n), x, n, p->a, p->y);
    if (p->turned > 0 && p->n_heads > 0)
        MF_LAUNCH(mf_cu_rope, MF_EACH_OF(p->rows * (p->turned / 2)), x, *p);
}

extern "C" void mf_cuda_cache_append(const mf_kctx *x, int64_t batch, int64_t s, int64_t t,
                                     int64_t n, const int32_t *pos, const float *a,
                                     float *cache)
{
    if (batch <= 0) return;
    MF_LAUNCH(mf_cu_check_cache, MF_ONE_BLOCK, x, x->fault, x->node, batch, s, t, pos);
    if (t * n > 0)
        MF_LAUNCH(mf_cu_cache_append, MF_EACH_OF(batch * t * n), x, x->fault, batch, s, t, n,
                  pos, a, cache);
}
