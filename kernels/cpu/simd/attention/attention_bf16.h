/* attention_bf16.h: functions that attention of bf16 and its gradient share.
 *
 * Each of the two is compiled for processors that multiply pairs of bf16 and add them in f32
 * (attention_pairs.h), and with ATTENTION_TILES for AMX (attention_tiles.h). BLOCK_KEYS is
 * the number of keys of a block.
 *
 * All operands of gemms are words of two bf16 that are neighbours along the inner index. A
 * block of scores is [keys, QUERIES] as in attention.h: rows of keys are multiplied with a
 * panel of queries [words, QUERIES]. So no step transposes scores: two of their rows become
 * words along keys, and one row is words along queries.
 *
 * A tile has up to ITEMS blocks of queries that use the same keys. Each block of keys is
 * converted once for all of them. All sums are f32, in the thread's workspace. */
#ifndef MF_SIMD_ATTENTION_BF16_H
#define MF_SIMD_ATTENTION_BF16_H

#ifndef ATTENTION_TILES
#define ATTENTION_TILES 0
#endif

#define ENGINE_BF16 1
#include "kernels/cpu/simd/attention/attention.h"
#include "kernels/cpu/workspace.h"

#define ITEMS 8
#define WIDE  256 /* wider heads have a quarter of the blocks */
/* floats of the backward pass, which needs more than the forward pass */
#define ROOM(items, n) ((items)*3 * (n)*QUERIES + 4 * (n)*KEYS + 3 * KEYS * QUERIES)
_Static_assert(ROOM(ITEMS, WIDE) <= MF_ROOM_TILE_SIZE, "room for blocks");
_Static_assert(ROOM(ITEMS / 4, MF_MAX_HEAD_DIM) <= MF_ROOM_TILE_SIZE, "room for wide blocks");

/* Sizes of a head: words along it that are multiplied, words of a stored row, and columns
 * of sums. */
typedef struct head_size {
    int64_t n, words, row, wide;
} head_size;

static inline int64_t whole_vectors(int64_t n)
{
    return (n + VL - 1) / VL * VL;
}

static inline head_size head_size_of(int64_t n)
{
    const int64_t words = (n + 1) / 2, row = whole_vectors(words);
    return (head_size){n, ATTENTION_TILES ? row : words, row, whole_vectors(n)};
}

/* Returns the next `count` floats of the workspace. */
static inline float *take_room(float **room, int64_t count)
{
    float *at = *room;
    *room += count;
    return at;
}

/* ---- words ---- */

/* Loads up to VL numbers, of which `left` exist; all other lanes are 0. */
V_INLINE vf load_left(const float *p, int64_t left)
{
    const __mmask16 m = left >= VL ? 0xffff : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
    return _mm512_maskz_loadu_ps(m, p);
}
V_INLINE void store_left(float *p, vf v, int64_t left)
{
    const __mmask16 m = left >= VL ? 0xffff : (__mmask16)((1u << left) - 1);
    _mm512_mask_storeu_ps(p, m, v);
}
/* Returns the bf16 of low, then those of high. */
V_INLINE __m512i both_as_bf16(vf low, vf high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Returns words of VL columns, of which `left` exist, of two rows; without `both` the second
 * row is 0. */
V_INLINE vf pair_of(bool both, int64_t left, const float *from, int64_t ld)
{
    const vf b = both ? load_left(from + ld, left) : (vf){0};
    return words_of_halves(both_as_bf16(load_left(from, left), b));
}

/* Writes rows [rows, n] as words along n. */
static inline void pack_rows(int64_t rows, const head_size *h, const float *from, int64_t ld,
                             float *to)
{
    for (int64_t r = 0; r < rows; r++, from += ld, to += h->row)
        for (int64_t c = 0; c < h->n; c += 2 * VL)
            v_store(to + c / 2, (vf)both_as_bf16(load_left(from + c, h->n - c),
                                                 load_left(from + c + VL, h->n - c - VL)));
}

/* Writes rows [rows, n] as words along rows: [rows / 2, wide]. A last single row is paired
 * with 0; pairs up to the next multiple of VL become 0. */
static inline void pack_pairs(int64_t rows, const head_size *h, const float *from, int64_t ld,
                              float *to)
{
    const int64_t pairs = (rows + 1) / 2;
    for (int64_t r = 0; r < rows; r += 2, from += 2 * ld, to += h->wide)
        for (int64_t c = 0; c < h->n; c += VL)
            v_store(to + c, pair_of(r + 1 < rows, h->n - c, from + c, ld));
    memset(to, 0, (size_t)((whole_vectors(pairs) - pairs) * h->wide) * sizeof *to);
}

/* Writes factor times rows [rows, n] as words along n, transposed: [words, QUERIES]. Rows up to
 * the next multiple of VL become 0. */
static inline void pack_turned(int64_t rows, const head_size *h, float factor,
                               const float *from, int64_t ld, float *to)
{
    for (int64_t r = 0; r < rows; r += VL)
        for (int64_t c = 0; c < h->n; c += 2 * VL) {
            vf x[16];
            V_UNROLL
            for (int i = 0; i < 16; i++) {
                const float *at = from + (r + i) * ld + c;
                x[i] = r + i < rows
                           ? (vf)both_as_bf16(load_left(at, h->n - c) * factor,
                                              load_left(at + VL, h->n - c - VL) * factor)
                           : (vf){0};
            }
            block_transpose(x);
            for (int i = 0; i < 16 && c / 2 + i < h->words; i++)
                v_store(to + (c / 2 + i) * QUERIES + r, x[i]);
        }
}

/* ---- blocks ---- */

/* Returns the largest number of blocks of queries in a tile. */
static inline int64_t most_items(const mf_attention_args *p)
{
    return p->head_dim > WIDE ? ITEMS / 4 : ITEMS;
}

/* Returns the number of blocks of queries that use the keys of one head. Those of all query
 * heads with the first queries come first. */
static inline int64_t items_of(const mf_attention_args *p)
{
    return (p->t + QUERIES - 1) / QUERIES * (p->heads / p->kv_heads);
}

#if ATTENTION_TILES
#include "kernels/cpu/simd/attention/attention_tiles.h"
#else
#include "kernels/cpu/simd/attention/attention_pairs.h"
#endif

#endif
