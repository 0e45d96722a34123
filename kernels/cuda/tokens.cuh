/* tokens.cuh: embeddings, rotary positions, and appending to a cache of keys and values. */
#pragma once
#include "base.cuh"
#include "index.cuh"

/* ---- gradient of a table ----
 *
 * All positions, sorted by id, are cut into tiles, so that an id that comes often has several
 * blocks. A list that lies in one tile is added to its row of the table at once. Of one that
 * does not each tile keeps its sum, [tiles, 2, n]: at place 0 of a list that began in an
 * earlier tile, at place 1 of one that begins here. Then they are added in order. */

typedef struct mf_table_grad {
    int64_t vocab, n, tile;
    bool add;
    const int32_t *ids, *offset, *list;
    const float *dy;
    double *part;
    float *dtable;
} mf_table_grad;

/* Threads of a block, positions of a tile at least, and rows of dy that a thread has under
 * way. */
constexpr int MF_TABLE_THREADS = 64, MF_TABLE_TILE = 32, MF_TABLE_ROWS = 8;

/* The first column of this thread, which has EACH of them. */
template <int EACH> MF_INLINE int64_t mf_table_column()
{
    return ((int64_t)blockIdx.y * MF_TABLE_THREADS + threadIdx.x) * EACH;
}
template <int EACH>
MF_INLINE void mf_table_put(const mf_table_grad &g, int64_t id, const double (&sum)[EACH])
{
    float *to = g.dtable + id * g.n + mf_table_column<EACH>(), v[EACH] = {};
    if (g.add) mf_get_each(to, v);
    MF_UNROLL
    for (int i = 0; i < EACH; i++)
        v[i] = (float)(v[i] + sum[i]);
    mf_put_each(to, v);
}

/* Each lane of a warp reads where a position and its list are; the warp then adds these rows in
 * turn. */
template <int EACH>
__global__ void __launch_bounds__(MF_TABLE_THREADS)
    mf_cu_embedding_grad(const mf_fault *fault, mf_table_grad g)
{
    if (mf_failed(fault)) return;
    const int64_t column = mf_table_column<EACH>(), from = blockIdx.x * g.tile;
    const int64_t all = g.offset[g.vocab], to = from + g.tile < all ? from + g.tile : all;
    const bool here = column < g.n;
    double sum[EACH] = {};
    for (int64_t first = from; first < to; first += MF_WARP) {
        const int64_t mine = first + threadIdx.x % MF_WARP, p = mine < to ? mine : to - 1;
        const int32_t row = g.list[p], id = g.ids[row];
        const int64_t begin = g.offset[id], end = g.offset[id + 1];
        const int place = begin < from ? 0 : end > to ? 1 : 2; /* 2: in the table */
        const uint32_t last = __ballot_sync(MF_ALL_LANES, p == to - 1 || p == end - 1);
        for (int k = 0; k < MF_WARP && first + k < to; k += MF_TABLE_ROWS) {
            float v[MF_TABLE_ROWS][EACH];
            MF_UNROLL
            for (int r = 0; r < MF_TABLE_ROWS; r++) {
                const int64_t at = __shfl_sync(MF_ALL_LANES, row, k + r);
                if (here) mf_get_each(g.dy + at * g.n + column, v[r]);
            }
            MF_UNROLL
            for (int r = 0; r < MF_TABLE_ROWS; r++) {
                if (first + k + r >= to) continue;
                MF_UNROLL
                for (int i = 0; here && i < EACH; i++)
                    sum[i] += v[r][i];
                if (!(last >> (k + r) & 1)) continue;
                const int64_t of = __shfl_sync(MF_ALL_LANES, id, k + r);
                const int at = __shfl_sync(MF_ALL_LANES, place, k + r);
                if (here && at == 2) mf_table_put<EACH>(g, of, sum);
                MF_UNROLL
                for (int i = 0; i < EACH; i++) {
                    if (here && at < 2)
                        g.part[(2 * (int64_t)blockIdx.x + at) * g.n + column + i] = sum[i];
                    sum[i] = 0;
                }
            }
        }
    }
}

/* The list, if there is one, that begins in this tile and goes on in the next one. */
template <int EACH>
__global__ void __launch_bounds__(MF_TABLE_THREADS)
    mf_cu_embedding_long(const mf_fault *fault, mf_table_grad g)
{
    if (mf_failed(fault)) return;
    const int64_t column = mf_table_column<EACH>(), tile = blockIdx.x;
    const int64_t from = tile * g.tile, to = from + g.tile;
    if (column >= g.n || to >= g.offset[g.vocab]) return;
    const int64_t id = g.ids[g.list[to - 1]], end = g.offset[id + 1];
    if (g.offset[id] < from || end <= to) return;
    double sum[EACH];
    MF_UNROLL
    for (int i = 0; i < EACH; i++)
        sum[i] = g.part[(2 * tile + 1) * g.n + column + i];
    MF_UNROLL_BY(4)
    for (int64_t t = tile + 1; t * g.tile < end; t++)
        MF_UNROLL
    for (int i = 0; i < EACH; i++)
        sum[i] += g.part[2 * t * g.n + column + i];
    mf_table_put<EACH>(g, id, sum);
}

/* ---- rotary positions ---- */

__global__ void __launch_bounds__(MF_THREADS)
    mf_cu_copy(int64_t n, const float *from, float *to)
{
    for (int64_t i = mf_thread(); i < n; i += mf_threads())
        to[i] = from[i];
}

/* Cosine and sine of the angle of pair i, times the magnitude. The angle is reduced to
 * (-pi, pi] in double, where f32 functions are exact enough at any position. */
typedef struct mf_turn {
    float cosine, sine;
} mf_turn;
MF_INLINE mf_turn mf_turn_of(int32_t position, int64_t i, int64_t turned, double theta,
                             double magnitude, double factor, bool inverse)
{
    double turn = position * pow(theta, -2.0 * (double)i / (double)turned) * factor /
                  3.14159265358979323846;
    turn -= 2 * rint(turn / 2);
    mf_turn t;
    t.cosine = (float)magnitude * cospif((float)turn);
    t.sine = (float)magnitude * sinpif((float)(inverse ? -turn : turn));
    return t;
}

/* A thread each pair of columns of a row, in all heads. */
template <class T> __global__ void __launch_bounds__(MF_THREADS) mf_cu_rope(mf_rope_args p)
{
    const int64_t pairs = p.turned / 2, at = mf_thread(), r = at / pairs, i = at % pairs;
    if (r >= p.rows) return;
    const mf_turn t = mf_turn_of(p.position[r], i, p.turned, p.theta, p.magnitude,
                                 p.factor ? (double)p.factor[i] : 1, p.inverse);
    const float c = t.cosine, s = t.sine;
    T *y = (T *)p.y + r * p.width + p.first;
    const bool both = !p.half && (uintptr_t)y % (2 * sizeof(T)) == 0 && p.head_dim % 2 == 0;
    MF_UNROLL_BY(1) /* else nvcc spills registers */
    for (int64_t h = 0; h < p.n_heads; h++, y += p.head_dim) {
        T *low = y + (p.half ? i : 2 * i), *high = p.half ? low + pairs : low + 1;
        if (both) { /* moved at once */
            float q[2];
            mf_get2(low, q);
            const float turned[2] = {q[0] * c - q[1] * s, q[0] * s + q[1] * c};
            mf_put2(low, turned);
            continue;
        }
        const float u = mf_get(low), v = mf_get(high);
        mf_put(low, u * c - v * s);
        mf_put(high, u * s + v * c);
    }
}

/* ---- cache ---- */

/* One block: records the first sequence whose rows do not fit. */
__global__ void __launch_bounds__(MF_CHECKERS)
    mf_cu_check_cache(mf_fault *fault, int node, int64_t batch, int64_t s, int64_t t,
                      const int32_t *pos)
{
    const int64_t first =
        mf_first_bad(batch, [&](int64_t b) { return (pos[b] < 0) | (pos[b] > s - t); });
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

extern "C" void mf_cuda_embedding(const mf_kctx *x, const mf_embedding_args *a)
{
    MF_CUDA_RUN(x, gather_rows, .type = MF_CAST_F32, .m = a->count, .d = a->n, .in = a->table,
                .index = a->ids, .out = a->y);
}

extern "C" void mf_cuda_embedding_grad(const mf_kctx *x, const mf_embedding_grad_args *a)
{
    int32_t *offset = (int32_t *)a->work, *list = offset + a->vocab + 1;
    const size_t each = 2 * (size_t)a->n * sizeof(double); /* sums of a tile */
    int64_t tile = MF_TABLE_TILE, tiles;
    if (a->vocab * a->n <= 0) return;
    MF_CUDA_RUN(x, index_lists, .m = a->count, .n = a->vocab, .index = a->ids, .offset = offset,
                .list = list);
    if (!a->add) /* 0 as an integer is 0 as a float */
        MF_LAUNCH(mf_cu_fill_i32, mf_grid(a->vocab * a->n, 4 * MF_THREADS), dim3(MF_THREADS), 0,
                  x, x->fault, a->vocab * a->n, 0, (int32_t *)a->dtable);
    if (a->count <= 0) return;
    while (tiles = (a->count + tile - 1) / tile, tiles > 1 && tiles * each > MF_CUDA_SCRATCH)
        tile *= 2;
    const mf_table_grad g = {
        a->vocab, a->n,   tile,
        a->add,   a->ids, offset,
        list,     a->dy,  tiles > 1 ? (double *)mf_cuda_scratch(x, tiles * each) : NULL,
        a->dtable};
    mf_by_each(a->n % 4 == 0 && mf_aligned(MF_CAST_F32, a->dy, a->dtable), [&](auto four) {
        constexpr int EACH = decltype(four)::each;
        const dim3 grid((unsigned)tiles, mf_grid((a->n + EACH - 1) / EACH, MF_TABLE_THREADS).x);
        MF_LAUNCH(mf_cu_embedding_grad<EACH>, grid, dim3(MF_TABLE_THREADS), 0, x, x->fault, g);
        if (tiles > 1)
            MF_LAUNCH(mf_cu_embedding_long<EACH>, grid, dim3(MF_TABLE_THREADS), 0, x, x->fault,
                      g);
    });
}

extern "C" void mf_cuda_rope(const mf_kctx *x, const mf_rope_args *p)
{
    const int64_t n = p->rows * (p->bf16 ? p->width / 2 : p->width);
    if (n <= 0) return;
    if (p->y != p->a) MF_LAUNCH(mf_cu_copy, MF_EACH_OF(n), x, n, p->a, p->y);
    if (p->turned <= 0 || p->n_heads <= 0) return;
    mf_by_type(p->bf16 ? MF_CAST_BF16 : MF_CAST_F32, [&](auto of) {
        MF_LAUNCH(mf_cu_rope<decltype(of)>, MF_EACH_OF(p->rows * (p->turned / 2)), x, *p);
    });
}

extern "C" void mf_cuda_cache_append(const mf_kctx *x, const mf_cache_append_args *a)
{
    if (a->batch <= 0) return;
    MF_LAUNCH(mf_cu_check_cache, MF_CHECKING, x, x->fault, x->node, a->batch, a->s, a->t,
              a->pos);
    if (a->t * a->n > 0)
        MF_LAUNCH(mf_cu_cache_append, MF_EACH_OF(a->batch * a->t * a->n), x, x->fault, a->batch,
                  a->s, a->t, a->n, a->pos, a->a, a->cache);
}
