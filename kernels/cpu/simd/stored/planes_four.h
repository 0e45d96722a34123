/* planes_four.h: weights of four bits as bf16, for y = x W^T; a part of stored/amx.c.
 *
 * A word of the file has eight neighbouring inputs of one output. Shifts of its halves extract
 * pairs of them, and a table of 32 bf16 replaces both numbers of a pair. For GPTQ4 the table
 * has integers, q - zero - 1. For MXFP4 it has values times 2^125; a subtraction changes their
 * exponents to those of the block. */
#ifndef MF_SIMD_PLANES_FOUR_H
#define MF_SIMD_PLANES_FOUR_H

#include "kernels/cpu/simd/stored/planes.h"

/* Returns pair p = 0 .. 3 of a word: numbers 2 p and 2 p + 1 are in the lowest bits of two
 * words of 16 bits; higher bits may be set. */
V_INLINE __m512i pair_of(__m512i word, int p)
{
    const __m512i both =
        p < 2 ? _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100)
              : _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
    return _mm512_srlv_epi16(_mm512_shuffle_epi8(word, both),
                             _mm512_set1_epi32(p % 2 ? 12 << 16 | 8 : 4 << 16));
}

/* ---- GPTQ4 ---- */

#define LONG_GROUP 64 /* minimum number of inputs of a long group */

/* Whether groups have at least that many inputs, which are neighbours. */
static bool has_long_groups(const mf_stored_part *p)
{
    return p->type == MF_STORED_GPTQ4 && !p->group_of &&
           (p->groups == 1 || p->group_size % LONG_GROUP == 0);
}

/* Returns the end of the group of input k, at most k1. */
static int64_t group_end(const mf_stored_part *p, int64_t k, int64_t k1)
{
    const int64_t end = p->groups == 1 ? k1 : (k / p->group_size + 1) * p->group_size;
    return end < k1 ? end : k1;
}

/* Writes q - zero - 1, and for each group of the slice the scales of its lanes. ahead: the
 * words that are unpacked later, for prefetch. */
static void fill_integers(const slice *s, const uint32_t *ahead, float *out, float *scale)
{
    const mf_stored_part *p = s->p;
    const __m512i low = _mm512_set1_epi16(15);
    uint16_t integers[32];
    for (int q = 0; q < 32; q++) /* the integers 0 .. 15 and -16 .. -1 */
        integers[q] = mf_bf16_from_f32((float)(q < 16 ? q : q - 32));
    const __m512i table = _mm512_loadu_si512(integers);
    int64_t i = s->k0;
    while (i < s->k1) {
        const int64_t end = group_end(p, i, s->k1);
        const lane_group g = lane_group_of(s, p->groups == 1 ? 0 : i / p->group_size);
        __m512i zero[2];
        for (int h = 0; h < 2; h++, scale += VL) {
            const vi z = __builtin_convertvector(g.zero[h], vi);
            zero[h] = (__m512i)(z | z << 16);
            v_store(scale, g.scale[h]);
        }
        for (; i < end; i += 8, out += 4 * LANES, ahead += p->rows) {
            vu word[2];
            gptq_words(s, i, ahead, word);
            V_UNROLL
            for (int h = 0; h < 2; h++)
                V_UNROLL
            for (int q = 0; q < 4; q++) {
                const __m512i pair = _mm512_and_si512(pair_of((__m512i)word[h], q), low);
                _mm512_store_si512(
                    out + q * LANES + h * VL,
                    _mm512_permutexvar_epi16(_mm512_sub_epi16(pair, zero[h]), table));
            }
        }
    }
    for (; (i - s->k0) % DEEP != 0; i += 2, out += LANES) {
        v_store(out, (vf){0});
        v_store(out + VL, (vf){0});
    }
}

/* ---- MXFP4 ---- */

#define MX_MOST 252 /* exponent of a block whose values equal those of the table */

/* Returns the row of the part in lane l; for a lane beyond the part, the last row. */
static int64_t row_of_lane(const slice *s, int64_t l)
{
    const int64_t row = s->p->pairs ? 2 * (l % VL) + l / VL : l;
    return s->n + (row < s->width ? row : s->width - 1);
}

/* Computes the number that is subtracted from both numbers of a pair, [blocks rounded up to VL,
 * LANES]. Returns whether the subtraction is correct for the power of two of each block. */
static bool mx_shifts(const slice *s, uint32_t *shift)
{
    const int64_t each = s->in / 32, b1 = s->k1 / 32;
    __mmask16 others = 0;
    for (int64_t b = s->k0 / 32; b < b1; b += VL, shift += VL * LANES)
        for (int h = 0; h < 2; h++) {
            vf v[VL];
            for (int r = 0; r < VL; r++) {
                const uint8_t *e =
                    (const uint8_t *)s->p->scales + row_of_lane(s, h * VL + r) * each + b;
                const __mmask16 m = mask_to(b1 - b);
                const __m512i x = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(m, e));
                const vi by = (MX_MOST - (vi)x) << 7;
                /* finds 0 and numbers above MX_MOST */
                others |= _mm512_mask_cmpge_epu32_mask(
                    m, _mm512_sub_epi32(x, _mm512_set1_epi32(1)), _mm512_set1_epi32(MX_MOST));
                v[r] = (vf)(by | by << 16);
            }
            transpose(v);
            for (int r = 0; r < VL; r++)
                v_store((float *)(shift + r * LANES + h * VL), v[r]);
        }
    return others == 0;
}

/* Writes a block of VL lanes; from: its bytes in each lane. */
V_INLINE void mx_block(const uint8_t *const from[VL], int64_t at, __m512i shift, __m512i table,
                       float *out)
{
    __m512i a[4], word[4];
    V_UNROLL
    for (int r = 0; r < 4; r++)
        a[r] = pieces(from[r] + at, from[4 + r] + at, from[8 + r] + at, from[12 + r] + at);
    turn_four(a, word);
    V_UNROLL
    for (int d = 0; d < 4; d++)
        V_UNROLL
    for (int q = 0; q < 4; q++)
        _mm512_store_si512(
            out + (4 * d + q) * LANES,
            _mm512_subs_epu16(_mm512_permutexvar_epi16(pair_of(word[d], q), table), shift));
}

/* Does the same as fill_planes. Returns false if the slice has powers of two for which the
 * subtraction is not correct (mx_shifts). */
static bool fill_mx(const slice *s, uint32_t *shift, float *out)
{
    static const float values[8] = {0, .5f, 1, 1.5f, 2, 3, 4, 6};
    uint16_t scaled[32];
    const uint8_t *from[LANES];
    if (!mx_shifts(s, shift)) return false;
    /* The table has 0 instead of -0, so that the subtraction leaves it 0. */
    for (int q = 0; q < 32; q++) {
        const uint16_t most = mf_bf16_from_f32(values[q % 8] * 0x1p125f);
        scaled[q] = (uint16_t)(most | (q % 16 > 8 ? 0x8000 : 0));
    }
    const __m512i table = _mm512_loadu_si512(scaled);
    for (int l = 0; l < LANES; l++)
        from[l] = (const uint8_t *)s->p->data + (row_of_lane(s, l) * s->in + s->k0) / 2;
    for (int64_t at = 0; at < (s->k1 - s->k0) / 2; at += 16, shift += LANES) {
        for (int h = 0; h < 2; h++) {
            if (at % 64 == 0)
                for (int r = 0; r < VL; r++)
                    __builtin_prefetch(from[h * VL + r] + at + 256);
            mx_block(from + h * VL, at, _mm512_loadu_si512(shift + h * VL), table,
                     out + h * VL);
        }
        out += TILE_WORDS * LANES;
    }
    return true;
}

#endif
