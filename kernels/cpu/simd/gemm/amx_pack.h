/* amx_pack.h: operands of a gemm in the layout of matrix registers; a part of amx.c.
 *
 * A word is a pair of bf16 that are neighbours along the inner index. A register has 16 lines
 * of 16 words. Rows of c need lines along the inner index: row panels of 32 rows,
 * [words / 16][2][16 rows][16 words]. Columns need words of neighbouring columns side by
 * side: lane panels of 32 columns, [words][32]. Both are padded with zeros to a multiple of
 * 16 words, and so are the lines of a register that has less than 16 rows or columns.
 *
 * Transposing takes most of the time of packing. Its first half costs little: a vector is put
 * together from four pieces of 16 bytes, which come from four lines. The instructions for this
 * also run on ports that cannot execute instructions that move elements within a vector. */
#ifndef MF_SIMD_GEMM_AMX_PACK_H
#define MF_SIMD_GEMM_AMX_PACK_H

#include "kernels/cpu/simd/gemm/amx_instructions.h"
#include "kernels/cpu/simd/gemm/store.h"

#define DEEP      (2 * TILE_WORDS)         /* number of elements of a line */
#define TILE      (TILE_ROWS * TILE_WORDS) /* number of words of a register */
#define ROW_PANEL (2 * TILE_ROWS)
#define SOON      8 /* number of lines of each row that are prefetched and copied at a time */

/* ---- reading ---- */

/* Stored rows, from a column on. whole: all rows exist and are bf16, so they can be read
 * in place. */
typedef struct source {
    int64_t rows[DEEP]; /* addresses of rows; -1: zeros */
    const uint16_t *at[DEEP];
    int64_t column;
    bool whole;
} source;

/* Finds `count` stored rows, beginning with index `first`. Rows from `end` on are zeros. */
V_INLINE void find_rows(const gemm_side *s, int64_t first, int64_t end, int count,
                        int64_t column, source *to)
{
    to->column = column;
    to->whole = s->type == MF_CAST_BF16;
    for (int r = 0; r < count; r++) {
        to->rows[r] = first + r < end ? stored_row(s, first + r) : -1;
        to->at[r] = to->rows[r] < 0 ? NULL : at_element(s, to->rows[r], column);
        to->whole = to->whole && to->rows[r] >= 0;
    }
}

/* Returns the addresses of `width` columns of `count` rows, `offset` columns behind the
 * first column. Of these columns `left` exist; the others are zeros. The addresses are
 * written to `to`. Parts that cannot be read in place are copied to room [count][width].
 * width: 16 or 32. */
V_INLINE void lines_of(const gemm_side *s, const source *from, int count, int64_t offset,
                       int64_t left, int width, uint16_t *room, const uint16_t **to)
{
    if (from->whole && left >= width) {
        for (int r = 0; r < count; r++)
            to[r] = from->at[r] + offset;
        return;
    }
    const int64_t n = left < width ? left : width;
    for (int r = 0; r < count; r++) {
        const vf v = from->rows[r] < 0
                         ? (vf){0}
                         : words_along(s, false, from->rows[r], from->column + offset, n);
        to[r] = room + r * width;
        _mm512_mask_storeu_epi16(room + r * width, width == DEEP ? 0xffffffffu : 0xffffu,
                                 (__m512i)v);
    }
}

/* Returns a vector of four pieces of 16 bytes. */
V_INLINE __m512i pieces(const void *a, const void *b, const void *c, const void *d)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128(a));
    v = _mm512_inserti32x4(v, _mm_loadu_si128(b), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128(c), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128(d), 3);
}

/* ---- rows ---- */

/* Copies rows i .. i + mr - 1, stored along the inner index, to a row panel, 512 bytes of each
 * row at a time. */
V_INLINE void rows_along(const gemm_side *s, int64_t i, int64_t mr, int64_t k0, int64_t k1,
                         float *out)
{
    for (int64_t p = k0; p < k1; p += SOON * DEEP, out += SOON * 2 * TILE)
        for (int64_t r = 0; r < mr; r++) {
            const int64_t row = stored_row(s, i + r);
            float *to = out + (r >= TILE_ROWS ? TILE : 0) + r % TILE_ROWS * TILE_WORDS;
            if (s->type == MF_CAST_BF16 && row >= 0 && p + SOON * DEEP <= k1) {
                const uint16_t *from = at_element(s, row, p);
                V_UNROLL
                for (int q = 0; q < SOON; q++) {
                    __builtin_prefetch(from + (SOON + q) * DEEP);
                    v_store(to + 2 * q * TILE, v_load((const float *)(from + q * DEEP)));
                }
                continue;
            }
            for (int64_t q = p; q < k1 && q < p + SOON * DEEP; q += DEEP, to += 2 * TILE)
                v_store(to, row < 0 ? (vf){0} : words_along(s, false, row, q, k1 - q));
        }
}

/* Transposes 32 stored rows of 8 elements: writes 8 lines of 32 elements. */
V_INLINE void turn_eight(const uint16_t *const at[DEEP], int column, float *out)
{
    __m512i a[8], b[8];
    V_UNROLL
    for (int r = 0; r < 8; r++)
        a[r] = pieces(at[r] + column, at[8 + r] + column, at[16 + r] + column,
                      at[24 + r] + column);
    V_UNROLL
    for (int r = 0; r < 4; r++) { /* b contains columns 0-3 or 4-7 of two rows. */
        b[r] = _mm512_unpacklo_epi16(a[2 * r], a[2 * r + 1]);
        b[4 + r] = _mm512_unpackhi_epi16(a[2 * r], a[2 * r + 1]);
    }
    V_UNROLL
    /* a contains two columns of four rows; a[r + 1] contains the other two columns. */
    for (int r = 0; r < 4; r++) {
        const int low = r / 2 * 4 + r % 2 * 2;
        a[2 * r] = _mm512_unpacklo_epi32(b[low], b[low + 1]);
        a[2 * r + 1] = _mm512_unpackhi_epi32(b[low], b[low + 1]);
    }
    V_UNROLL
    for (int half = 0; half < 2; half++)
        V_UNROLL
    for (int c = 0; c < 2; c++) {
        const __m512i v = a[4 * half + c], w = a[4 * half + 2 + c];
        float *to = out + (4 * half + 2 * c) * TILE_WORDS;
        _mm512_store_si512(to, _mm512_unpacklo_epi64(v, w));
        _mm512_store_si512(to + TILE_WORDS, _mm512_unpackhi_epi64(v, w));
    }
}

/* Packs rows i .. iend - 1, stored across the inner index, to row panels. */
V_INLINE void rows_across(const gemm_side *s, int64_t i, int64_t iend, int64_t k0, int64_t k1,
                          float *out)
{
    uint16_t room[DEEP * TILE_ROWS] __attribute__((aligned(64)));
    const int64_t panel = words_of(k0, k1) * ROW_PANEL;
    source from;
    for (int64_t p = k0; p < k1; p += DEEP, out += 2 * TILE) {
        find_rows(s, p, k1, DEEP, i, &from);
        for (int r = 0; r < DEEP && p + DEEP + r < k1; r++)
            fetch(s, stored_row(s, p + DEEP + r), i, iend);
        for (int64_t r = 0; i + r < iend; r += TILE_ROWS) {
            const uint16_t *at[DEEP];
            float *to = out + r / ROW_PANEL * panel + r % ROW_PANEL * TILE_WORDS;
            lines_of(s, &from, DEEP, r, iend - i - r, TILE_ROWS, room, at);
            turn_eight(at, 0, to);
            turn_eight(at, 8, to + TILE / 2);
        }
    }
}

/* Packs rows i .. iend - 1 to row panels, which follow each other. */
static void pack_rows(const gemm_side *s, int64_t i, int64_t iend, int64_t k0, int64_t k1,
                      float *out)
{
    const int64_t size = words_of(k0, k1) * ROW_PANEL;
    gemm_side of = *s;
    if (!s->along) { /* This code is compiled for each type, as in pack.h. */
        of.type = MF_CAST_BF16;
        if (s->type == MF_CAST_BF16)
            rows_across(&of, i, iend, k0, k1, out);
        else
            rows_across(s, i, iend, k0, k1, out);
        return;
    }
    for (; i < iend; i += ROW_PANEL, out += size) {
        const int64_t mr = iend - i < ROW_PANEL ? iend - i : ROW_PANEL;
        of.type = MF_CAST_BF16;
        if (s->type == MF_CAST_BF16)
            rows_along(&of, i, mr, k0, k1, out);
        else
            rows_along(s, i, mr, k0, k1, out);
        for (int64_t r = mr; r % TILE_ROWS != 0; r++)
            for (int64_t q = 0; q < size; q += 2 * TILE)
                v_store(out + q + r / TILE_ROWS * TILE + r % TILE_ROWS * TILE_WORDS, (vf){0});
    }
}

/* ---- lanes ---- */

/* Transposes four words of 16 stored rows, which `pieces` has put together: word[q] becomes
 * word q of 16 lanes. */
V_INLINE void turn_four(const __m512i a[4], __m512i word[4])
{
    __m512i b[4];
    V_UNROLL
    for (int r = 0; r < 2; r++) {
        b[r] = _mm512_unpacklo_epi32(a[2 * r], a[2 * r + 1]);
        b[2 + r] = _mm512_unpackhi_epi32(a[2 * r], a[2 * r + 1]);
    }
    V_UNROLL
    for (int h = 0; h < 2; h++) {
        word[2 * h] = _mm512_unpacklo_epi64(b[2 * h], b[2 * h + 1]);
        word[2 * h + 1] = _mm512_unpackhi_epi64(b[2 * h], b[2 * h + 1]);
    }
}

/* Like turn_four, but writes the words from `out` on, LANES apart. */
V_INLINE void put_four(const __m512i a[4], float *out)
{
    __m512i word[4];
    turn_four(a, word);
    V_UNROLL
    for (int q = 0; q < 4; q++)
        _mm512_store_si512(out + q * LANES, word[q]);
}

/* Transposes 16 stored rows of 16 words. */
V_INLINE void turn_words(const uint16_t *const at[TILE_ROWS], float *out)
{
    V_UNROLL
    for (int q = 0; q < TILE_WORDS; q += 4) {
        __m512i a[4];
        V_UNROLL
        for (int r = 0; r < 4; r++)
            a[r] =
                pieces(at[r] + 2 * q, at[4 + r] + 2 * q, at[8 + r] + 2 * q, at[12 + r] + 2 * q);
        put_four(a, out + q * LANES);
    }
}

/* Packs columns j .. jend - 1, stored along the inner index, to lane panels. */
V_INLINE void lanes_along(const gemm_side *s, int64_t j, int64_t jend, int64_t k0, int64_t k1,
                          float *out)
{
    uint16_t room[TILE_ROWS * DEEP] __attribute__((aligned(64)));
    source from;
    for (int64_t l = j; l < jend; l += LANES, out += words_of(k0, k1) * LANES)
        for (int h = 0; h < 2; h++) {
            float *to = out + h * VL;
            find_rows(s, l + h * VL, jend, TILE_ROWS, k0, &from);
            for (int64_t p = 0; p < k1 - k0; p += DEEP, to += TILE_WORDS * LANES) {
                const uint16_t *at[TILE_ROWS];
                lines_of(s, &from, TILE_ROWS, p, k1 - k0 - p, DEEP, room, at);
                turn_words(at, to);
            }
        }
}

/* Writes the pairs of two stored rows of 32 columns as words of 32 lanes. */
V_INLINE void put_pairs(__m512i even, __m512i odd, float *out)
{
    /* Unpacking interleaves 8-byte halves of 16-byte pieces, so piece g contains columns 4 g ..
     * 4 g + 3 and the columns that are 16 behind them. */
    const __m512i apart = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    const __m512i v = _mm512_permutexvar_epi64(apart, even),
                  w = _mm512_permutexvar_epi64(apart, odd);
    _mm512_store_si512(out, _mm512_unpacklo_epi16(v, w));
    _mm512_store_si512(out + VL, _mm512_unpackhi_epi16(v, w));
}

/* Packs columns j .. jend - 1, stored across the inner index, to lane panels. */
V_INLINE void lanes_across(const gemm_side *s, int64_t j, int64_t jend, int64_t k0, int64_t k1,
                           float *out)
{
    const int64_t panel = words_of(k0, k1) * LANES;
    uint16_t room[DEEP * DEEP] __attribute__((aligned(64)));
    source from;
    for (int64_t p = k0; p < k1; p += DEEP, out += TILE_WORDS * LANES) {
        float *to = out;
        find_rows(s, p, k1, DEEP, j, &from);
        for (int r = 0; r < DEEP && p + DEEP + r < k1; r++)
            fetch(s, stored_row(s, p + DEEP + r), j, jend);
        for (int64_t l = 0; j + l < jend; l += LANES, to += panel) {
            const uint16_t *at[DEEP];
            lines_of(s, &from, DEEP, l, jend - j - l, DEEP, room, at);
            V_UNROLL
            for (int q = 0; q < TILE_WORDS; q++) {
                put_pairs(_mm512_loadu_si512(at[2 * q]), _mm512_loadu_si512(at[2 * q + 1]),
                          to + q * LANES);
            }
        }
    }
}

/* Packs columns j .. jend - 1 to lane panels, which follow each other. */
static inline void pack_lanes(const gemm_side *s, int64_t j, int64_t jend, int64_t k0,
                              int64_t k1, float *out)
{
    gemm_side of = *s;
    of.type = MF_CAST_BF16;
    if (s->along && s->type == MF_CAST_BF16)
        lanes_along(&of, j, jend, k0, k1, out);
    else if (s->along)
        lanes_along(s, j, jend, k0, k1, out);
    else if (s->type == MF_CAST_BF16)
        lanes_across(&of, j, jend, k0, k1, out);
    else
        lanes_across(s, j, jend, k0, k1, out);
}

#endif
