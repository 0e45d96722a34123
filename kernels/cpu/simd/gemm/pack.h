/* pack.h: reads words of operands of any type and layout, and packs them. It is a part of
 * the engine. */
#ifndef MF_SIMD_GEMM_PACK_H
#define MF_SIMD_GEMM_PACK_H

#include "kernels/cpu/simd/gemm/tile.h"
#include "kernels/cpu/simd/gemm/words.h"

#define MR       (VL == 16 ? 14 : VL == 8 ? 6 : 4)
#define NR       2
#define LANES    (NR * VL)
#define PER_WORD (ENGINE_BF16 ? 2 : 1)
#define GROUP    8   /* number of row panels that are copied at a time */
#define KC       640 /* maximum number of words per block of the inner index */
#ifndef WORD_UNIT
#define WORD_UNIT 1 /* panels are padded with zeros to a multiple of this many words */
#endif

static inline int64_t div_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t words_of(int64_t k0, int64_t k1)
{
    return div_up(div_up(k1 - k0, PER_WORD), WORD_UNIT) * WORD_UNIT;
}

V_INLINE const void *at_element(const gemm_side *s, int64_t row, int64_t column)
{
    return (const char *)s->at + (row * s->ld + column) * (s->type == MF_CAST_F32 ? 4 : 2);
}

V_INLINE vf round_to_bf16(vf x)
{
    return (vf)(v_to_bf16(x) << 16);
}

/* Reads n neighbouring numbers, at most VL, as f32; all other lanes are 0. */
V_INLINE vf numbers(mf_cast_type type, const void *from, int64_t n)
{
    if (type == MF_CAST_F32) return n >= VL ? v_load(from) : v_load_n(from, n);
#if defined(__AVX512F__)
    __mmask16 m = n >= VL ? 0xffff : (__mmask16)((1u << n) - 1);
    __m256i half = _mm256_maskz_loadu_epi16(m, from);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
#else
    return n >= VL ? v_load_bf16(from) : v_load_bf16_n(from, n);
#endif
}

#if ENGINE_BF16
/* Reads n numbers, at most 16, as bf16, into the low 16 bits of words; all other words
 * are 0. */
V_INLINE __m512i halves(mf_cast_type type, const void *from, int64_t n)
{
    if (type == MF_CAST_F32)
        return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(numbers(type, from, n)));
    __mmask16 m = n >= VL ? 0xffff : (__mmask16)((1u << n) - 1);
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, from));
}
#endif

#if ENGINE_BF16
/* Reads VL numbers of two rows, as the low and the high halves of words. */
V_INLINE vf interleaved(mf_cast_type type, const void *low, const void *high)
{
    __m512i both;
    if (type == MF_CAST_F32)
        both = (__m512i)_mm512_cvtne2ps_pbh(v_load(high), v_load(low));
    else
        both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(low)),
                                  _mm256_loadu_si256(high), 1);
    return words_of_halves(both);
}
#endif

/* Reads VL words along the inner index: n elements of a row from column p on, then zeros. */
V_INLINE vf words_along(const gemm_side *s, bool rounded, int64_t row, int64_t p, int64_t n)
{
    const char *from = at_element(s, row, p);
#if ENGINE_BF16
    (void)rounded;
    if (s->type == MF_CAST_BF16)
        return n >= 2 * VL ? (vf)_mm512_loadu_si512(from)
                           : (vf)_mm512_maskz_loadu_epi16((1u << n) - 1, from);
    vf low = numbers(MF_CAST_F32, from, n);
    vf high = n > VL ? numbers(MF_CAST_F32, from + 4 * VL, n - VL) : (vf){0};
    return (vf)_mm512_cvtne2ps_pbh(high, low);
#else
    vf v = numbers(s->type, from, n);
    return rounded && s->type == MF_CAST_F32 ? round_to_bf16(v) : v;
#endif
}

/* Reads words of n stored columns, at most VL, from one stored row or a pair of rows. A row
 * index below 0 means zeros. */
V_INLINE vf words_across(const gemm_side *s, bool rounded, int64_t row, int64_t next,
                         int64_t column, int64_t n)
{
#if ENGINE_BF16
    __m512i low = _mm512_setzero_si512(), high = low;
    (void)rounded;
    if (row >= 0 && next >= 0 && n >= VL)
        return interleaved(s->type, at_element(s, row, column), at_element(s, next, column));
    if (row >= 0) low = halves(s->type, at_element(s, row, column), n);
    if (next >= 0) high = halves(s->type, at_element(s, next, column), n);
    return (vf)_mm512_or_si512(low, _mm512_slli_epi32(high, 16));
#else
    (void)next;
    if (row < 0) return (vf){0};
    vf v = numbers(s->type, at_element(s, row, column), n);
    return rounded && s->type == MF_CAST_F32 ? round_to_bf16(v) : v;
#endif
}

V_INLINE int64_t stored_row(const gemm_side *s, int64_t row)
{
    return s->index != NULL ? s->index[row] : row;
}

/* Returns the stored row of inner index p; -1 after the last row. */
V_INLINE int64_t inner_row(const gemm_side *s, int64_t p, int64_t k1)
{
    return p < k1 ? stored_row(s, p) : -1;
}

/* ---- VL x VL words transposed: each round interleaves the upper half with the lower ---- */
#if VL == 16
#define LOW_HALVES  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif VL == 8
#define LOW_HALVES  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define LOW_HALVES  0, 4, 1, 5
#define HIGH_HALVES 2, 6, 3, 7
#endif
V_INLINE void transpose(vf v[VL])
{
    V_UNROLL
    for (int round = 1; round < VL; round *= 2) {
        vf t[VL];
        V_UNROLL
        for (int i = 0; i < VL / 2; i++) {
            t[2 * i] = V_SHUFFLE(vi, v[i], v[i + VL / 2], LOW_HALVES);
            t[2 * i + 1] = V_SHUFFLE(vi, v[i], v[i + VL / 2], HIGH_HALVES);
        }
        V_UNROLL
        for (int i = 0; i < VL; i++)
            v[i] = t[i];
    }
}

/* ---- copies ---- */

#define AHEAD 8 /* prefetch distance in rows */

/* Prefetches columns from .. to - 1 of a stored row; a row index below 0 prefetches nothing. */
V_INLINE void fetch(const gemm_side *s, int64_t row, int64_t from, int64_t to)
{
    const int64_t line = s->type == MF_CAST_F32 ? 16 : 32;
    for (int64_t c = from; row >= 0 && c < to; c += line)
        __builtin_prefetch(at_element(s, row, c));
}

/* Packs lanes j .. jend - 1 over the inner indices k0 .. k1 - 1 into consecutive panels
 * [words][LANES], and pads the lanes of the last panel with zeros. WORD_UNIT is 1. */
V_INLINE void pack_across_as(const gemm_side *s, bool rounded, int64_t j, int64_t jend,
                             int64_t k0, int64_t k1, float *out)
{
    const int64_t panel = words_of(k0, k1) * LANES;
    for (int64_t p = k0; p < k1; p += PER_WORD, out += LANES) {
        int64_t row = stored_row(s, p), next = ENGINE_BF16 ? inner_row(s, p + 1, k1) : -1;
        float *to = out;
        fetch(s, inner_row(s, p + AHEAD, k1), j, jend);
        if (PER_WORD > 1) fetch(s, inner_row(s, p + AHEAD + 1, k1), j, jend);
        for (int64_t l = j; l < jend; l += LANES, to += panel) {
            V_UNROLL
            for (int h = 0; h < NR; h++) {
                int64_t left = jend - l - h * VL;
                v_store(to + h * VL,
                        left <= 0 ? (vf){0}
                                  : words_across(s, rounded, row, next, l + h * VL, left));
            }
        }
    }
}

/* Like pack_across_as, for an operand that is stored along the inner index. */
V_INLINE void pack_along_as(const gemm_side *s, bool rounded, int64_t j, int64_t jend,
                            int64_t k0, int64_t k1, float *out)
{
    const int64_t panel = words_of(k0, k1) * LANES;
    for (int64_t l = 0; j + l < jend || l % LANES != 0; l += VL) {
        float *to = out + l / LANES * panel + l % LANES;
        int64_t row[VL];
        for (int i = 0; i < VL; i++)
            row[i] = j + l + i < jend ? stored_row(s, j + l + i) : -1;
        for (int64_t p = k0; p < k1; p += PER_WORD * VL, to += VL * LANES) {
            int64_t left = k1 - p, count = (left + PER_WORD - 1) / PER_WORD;
            vf v[VL];
            V_UNROLL
            for (int i = 0; i < VL; i++)
                v[i] = row[i] < 0 ? (vf){0} : words_along(s, rounded, row[i], p, left);
            transpose(v);
            if (count >= VL || WORD_UNIT == VL) {
                V_UNROLL
                for (int i = 0; i < VL; i++)
                    v_store(to + i * LANES, v[i]);
            } else {
                for (int i = 0; i < count; i++)
                    v_store(to + i * LANES, v[i]);
            }
        }
    }
}

/* The words of mr rows. Either the words of a row are neighbours, and row r begins r rs bytes
 * after row 0; or they are packed as [words][VL], of which the first mr are used. */
typedef struct row_panel {
    const char *at;
    int64_t rs;
    bool packed;
} row_panel;

/* Packs rows that are stored across the inner index into `count` row panels [words][VL]. Row
 * panel t has rows border[t] .. border[t + 1] - 1. Copies only the inner indices from .. to - 1
 * of k0 .. k1 - 1. */
V_INLINE void pack_row_panels_as(const gemm_side *s, bool rounded, const int64_t *border,
                                 int64_t count, int64_t k0, int64_t k1, int64_t from,
                                 int64_t to, float *out)
{
    const int64_t panel = (k1 - k0 + PER_WORD - 1) / PER_WORD * VL;
    int64_t full = 0; /* number of row panels that may be read by whole vectors */
    while (full < count && border[full] + VL <= s->end)
        full++;
    out += (from - k0) / PER_WORD * VL;
    for (int64_t p = from; p < to; p += PER_WORD, out += VL) {
        const int64_t row = stored_row(s, p), next = ENGINE_BF16 ? inner_row(s, p + 1, k1) : -1;
        float *at = out;
        if (p + AHEAD < k1) fetch(s, stored_row(s, p + AHEAD), border[0], border[count]);
        for (int64_t t = 0; t < full; t++, at += panel)
            v_store(at, words_across(s, rounded, row, next, border[t], VL));
        for (int64_t t = full; t < count; t++, at += panel)
            v_store(at,
                    words_across(s, rounded, row, next, border[t], border[t + 1] - border[t]));
    }
}

/* Whether words on the rows side can be read in place. */
static inline bool rows_lie(const gemm_side *s, bool rounded, int64_t k)
{
    return s->along && s->index == NULL &&
           s->type == (ENGINE_BF16 ? MF_CAST_BF16 : MF_CAST_F32) && (ENGINE_BF16 || !rounded) &&
           k % PER_WORD == 0;
}

/* Copies mr rows, beginning with row i and stored along the inner index, to `out`. */
V_INLINE row_panel copy_rows_as(const gemm_side *s, bool rounded, int64_t i, int mr, int64_t k0,
                                int64_t k1, float *out)
{
    const int64_t words = (k1 - k0 + PER_WORD - 1) / PER_WORD,
                  rs = (words + VL - 1) / VL * VL + VL;
    for (int r = 0; r < mr; r++) {
        int64_t row = stored_row(s, i + r);
        for (int64_t p = k0, q = 0; p < k1; p += PER_WORD * VL, q += VL)
            v_store(out + r * rs + q,
                    row < 0 ? (vf){0} : words_along(s, rounded, row, p, k1 - p));
    }
    return (row_panel){(const char *)out, 4 * rs, false};
}

/* ---- compiled for each type: a test per element would cost as much as moving it ---- */

#define FOR_EACH_TYPE(s, rounded, call)                                                        \
    {                                                                                          \
        gemm_side of = *(s);                                                                   \
        if ((s)->type == MF_CAST_BF16) {                                                       \
            of.type = MF_CAST_BF16;                                                            \
            call(&of, false);                                                                  \
        } else if (!(rounded)) {                                                               \
            of.type = MF_CAST_F32;                                                             \
            call(&of, false);                                                                  \
        } else {                                                                               \
            of.type = MF_CAST_F32;                                                             \
            call(&of, true);                                                                   \
        }                                                                                      \
    }

static inline void pack_across(const gemm_side *s, bool rounded, int64_t j, int64_t jend,
                               int64_t k0, int64_t k1, float *out)
{
#define CALL(of, r) pack_across_as(of, r, j, jend, k0, k1, out)
    FOR_EACH_TYPE(s, rounded, CALL)
#undef CALL
}

static inline void pack_along(const gemm_side *s, bool rounded, int64_t j, int64_t jend,
                              int64_t k0, int64_t k1, float *out)
{
#define CALL(of, r) pack_along_as(of, r, j, jend, k0, k1, out)
    FOR_EACH_TYPE(s, rounded, CALL)
#undef CALL
}

static inline void pack_row_panels(const gemm_side *s, bool rounded, const int64_t *border,
                                   int64_t count, int64_t k0, int64_t k1, int64_t from,
                                   int64_t to, float *out)
{
#define CALL(of, r) pack_row_panels_as(of, r, border, count, k0, k1, from, to, out)
    FOR_EACH_TYPE(s, rounded, CALL)
#undef CALL
}

static inline row_panel copy_rows(const gemm_side *s, bool rounded, int64_t i, int mr,
                                  int64_t k0, int64_t k1, float *out)
{
    row_panel at = {0};
#define CALL(of, r) at = copy_rows_as(of, r, i, mr, k0, k1, out)
    FOR_EACH_TYPE(s, rounded, CALL)
#undef CALL
    return at;
}

#endif
