/* gemm_tile.cuh: what kernels of gemms have in common whose operands a feed brings
 * (gemm_feed.cuh): which gemms they compute, which tile a block has, how two elements are
 * stored, and the launch. */
#pragma once
#include "gemm.cuh"
#include "gemm_feed.cuh"

constexpr int MF_TILE_SIDE = 128; /* rows of a tile */

/* Tile number `at`, of 128 rows and WIDE of n columns; *e and *before: a group, and the number
 * of tiles of those before it, from which a search by rows goes on. */
template <int WIDE>
MF_INLINE bool mf_gemm_tile(const mf_gemm &g, int64_t n, int64_t at, int64_t *e,
                            int64_t *before, mf_gemm_part *p)
{
    /* No memory has so many tiles that 32 bits cannot count them; divisions of 64 bits take a
     * hundred instructions. */
    const unsigned wide = ((unsigned)n + WIDE - 1) / WIDE;
    p->k0 = 0, p->k1 = g.k;
    if (g.by != MF_BY_ROWS) {
        const unsigned all = ((unsigned)g.m + MF_TILE_SIDE - 1) / MF_TILE_SIDE * wide;
        const unsigned group = (unsigned)at / all, rest = (unsigned)at - group * all;
        if (group >= (unsigned)g.groups) return false;
        p->group = group;
        p->i0 = rest / wide * MF_TILE_SIDE, p->i1 = g.m;
        p->j0 = rest % wide * WIDE;
        if (g.by == MF_BY_INNER) p->k0 = g.offset[group], p->k1 = g.offset[group + 1];
        return true;
    }
    for (; *e < g.groups; ++*e) {
        const int first = g.offset[*e], end = g.offset[*e + 1];
        const unsigned high = (unsigned)(end - first + MF_TILE_SIDE - 1) / MF_TILE_SIDE;
        if (at < *before + high * wide) {
            const unsigned rest = (unsigned)(at - *before);
            p->group = *e;
            p->i0 = first + (int)(rest / wide * MF_TILE_SIDE), p->i1 = end;
            p->j0 = rest % wide * WIDE;
            return true;
        }
        *before += high * wide;
    }
    return false;
}

/* Elements j and j + 1 of row i of c; both: both are in it, and can be moved at once. */
MF_INLINE void mf_gemm_store2(const mf_gemm &g, const mf_gemm_part &p, int64_t i, int64_t j,
                              bool both, const float sum[2])
{
    if (!both) {
        if (j < g.n) mf_gemm_store(g, p, i, j, sum[0]);
        if (j + 1 < g.n) mf_gemm_store(g, p, i, j + 1, sum[1]);
        return;
    }
    const int64_t at = (g.by == MF_BY_ROWS ? 0 : p.group * g.c.step) + i * g.c.ld + j;
    float v[2] = {g.alpha * sum[0], g.alpha * sum[1]};
    if (g.bias) {
        const float *bias = g.bias + p.group * g.step_bias + j;
        v[0] += bias[0], v[1] += bias[1];
    }
    if (g.c.type == MF_CAST_BF16) {
        uint32_t *c = (uint32_t *)((mf_bf16 *)g.c.data + at);
        if (g.beta != 0)
            v[0] += mf_bf16_to_f32((mf_bf16)*c), v[1] += mf_bf16_to_f32((mf_bf16)(*c >> 16));
        *c = mf_round2(v[0], v[1]);
    } else {
        float *c = (float *)g.c.data + at;
        if (g.beta != 0) {
            float old[2];
            mf_get2(c, old);
            v[0] += old[0], v[1] += old[1];
        }
        mf_put2(c, v);
    }
}

/* ---- launches ---- */

/* Whether 16 bytes of each stored row of o can be moved at once, wherever its groups begin. */
static inline bool mf_by_sixteen(const mf_gemm_operand &o)
{
    const int64_t size = (int64_t)mf_cast_size(o.type), each = 16 / size;
    return (uintptr_t)o.data % 16 == 0 && o.ld % each == 0 && o.step % each == 0 &&
           o.ld <= INT32_MAX / size;
}
/* Whether an operand whose inner index does not run along stored rows has a list of rows. */
static inline bool mf_is_listed(const mf_gemm &g)
{
    return (g.a.trans && g.a.row) || (!g.b.trans && g.b.row);
}
/* Whether feeds can bring the operands of g: groups of rows or of inner indices begin anywhere,
 * so they must not run along stored rows; and of gemms with such lists kernels compute those
 * that have them, gradients of weights. */
static inline bool mf_can_gemm_by_sixteen(const mf_gemm &g)
{
    const bool small = g.m <= INT32_MAX && g.n <= INT32_MAX && g.k <= INT32_MAX;
    if (!small || !mf_by_sixteen(g.a) || !mf_by_sixteen(g.b)) return false;
    if (mf_is_listed(g) && !(g.a.trans && !g.b.trans)) return false;
    return g.by == MF_BY_BATCH || (g.by == MF_BY_ROWS ? !g.a.trans : g.a.trans && !g.b.trans);
}
/* Whether two elements of c can be moved at once. */
static inline bool mf_stores_pairs(const mf_gemm &g)
{
    return (uintptr_t)g.c.data % (2 * (uintptr_t)mf_cast_size(g.c.type)) == 0 &&
           g.c.ld % 2 == 0 && g.c.step % 2 == 0;
}

/* Tiles of MF_TILE_SIDE rows and `wide` columns; by rows a bound, since groups end in tiles. */
static inline int64_t mf_gemm_tiles(const mf_gemm &g, int wide)
{
    const int64_t high = (g.m + MF_TILE_SIDE - 1) / MF_TILE_SIDE;
    return (g.by == MF_BY_ROWS ? high + g.groups : high * g.groups) * ((g.n + wide - 1) / wide);
}
/* Blocks that take these tiles in turn, at most `most` a multiprocessor. */
static inline dim3 mf_gemm_grid(const mf_gemm &g, int wide, int most)
{
    const int64_t tiles = mf_gemm_tiles(g, wide), all = (int64_t)most * mf_cuda_processors;
    return dim3((unsigned)(tiles < all ? tiles : all));
}

/* Of the operands of a gemm: whether the inner index runs along stored rows of a, of b, and
 * whether one where it does not has a list of rows. */
template <bool A, bool B, bool LIST> struct mf_layout {
    static constexpr bool A_ALONG = A, B_ALONG = B, LISTED = LIST;
};
/* Calls fn with the layout of g. */
template <class F> static inline void mf_by_layout(const mf_gemm &g, F fn)
{
    if (mf_is_listed(g))
        fn(mf_layout<false, false, true>());
    else if (!g.a.trans && g.b.trans)
        fn(mf_layout<true, true, false>());
    else if (!g.a.trans)
        fn(mf_layout<true, false, false>());
    else if (g.b.trans)
        fn(mf_layout<false, true, false>());
    else
        fn(mf_layout<false, false, false>());
}
