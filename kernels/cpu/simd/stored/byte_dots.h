/* byte_dots.h: exact sums over a unit of inputs of digits of rows times weights of GPTQ8 and
 * AWQ4, read directly from memory; a part of packed_units.h, for processors that multiply and
 * add four bytes in one instruction (AVX-512 VNNI). */
#ifndef MF_SIMD_BYTE_DOTS_H
#define MF_SIMD_BYTE_DOTS_H

#include "kernels/cpu/simd/stored/packed_dots.h"

/* ---- GPTQ8: a word is four inputs of one output ---- */

/* The digits of the rows of a unit, in the order of the inputs. */
typedef struct byte_digits {
    int8_t digit[4][DIGITS][SPAN];
} byte_digits;

V_INLINE void byte_order(int mr, int nd, const packed_unit *u, byte_digits *to)
{
    for (int r = 0; r < mr; r++)
        for (int d = 0; d < nd; d++) {
            const span *x = u->x + r * u->ldx;
            for (int64_t i = u->input / 2; i < (u->input + u->inputs + 1) / 2; i++) {
                to->digit[r][d][2 * i] = x->digit[d][0][i];
                to->digit[r][d][2 * i + 1] = x->digit[d][1][i];
            }
        }
}

/* Adds word rows w .. w + words - 1 of a vector of outputs, beginning with output v. n: the
 * number of outputs, at most VL. `fresh`: there are no sums yet. */
V_INLINE void byte_vector(int mr, int nd, int words, bool fresh, const packed_unit *u,
                          int64_t w, int64_t v, int64_t n, const byte_digits *x, int32_t *sum)
{
    const uint32_t *q = u->q + w * u->ldq + v;
    const int8_t *digit = &x->digit[0][0][u->input + 4 * w];
    pair_sum part[4][DIGITS];
    /* Digits are multiplied from memory at no cost. The compiler would load them before the
     * loop over outputs instead, and has no registers for them. */
    __asm__("" : "+r"(digit));
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int d = 0; d < nd; d++)
            part[r][d].sum = fresh ? (vi){0} : v_loadi(packed_sum(sum, mr, nd, v, r, d));
    }
    V_UNROLL
    for (int i = 0; i < words; i++, q += u->ldq) {
        const vi word = n < VL ? (vi)v_load_n((const float *)(const void *)q, n)
                               : v_loadi((const int32_t *)q);
        prefetch_weights(q + u->ahead * u->ldq);
        if (mr == 1) __builtin_prefetch(q + u->near * u->ldq, 0, 3);
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            V_UNROLL
            for (int d = 0; d < nd; d++)
                add_dots(&part[r][d], word, word_at(digit + (r * DIGITS + d) * SPAN + 4 * i));
        }
    }
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int d = 0; d < nd; d++)
            v_store((float *)(void *)packed_sum(sum, mr, nd, v, r, d), (vf)part[r][d].sum);
    }
}

V_INLINE void byte_step(int mr, int nd, int words, bool fresh, const packed_unit *u, int64_t w,
                        const byte_digits *x, int32_t *sum)
{
    int64_t v = 0;
    for (; v + VL <= u->n; v += VL)
        byte_vector(mr, nd, words, fresh, u, w, v, VL, x, sum);
    if (v < u->n) byte_vector(mr, nd, words, fresh, u, w, v, u->n - v, x, sum);
}

V_INLINE void byte_run(int mr, int nd, const packed_unit *u, int32_t *sum)
{
    /* Number of word rows at a time. Memory is read fastest in its order, one word row after
     * the other; with one row of x, loading and storing the sums each time costs less. */
    const int step = mr == 1 ? 1 : 4;
    const int64_t words = u->inputs / 4;
    byte_digits x;
    int64_t w = 0;
    byte_order(mr, nd, u, &x);
    if (words >= step) {
        byte_step(mr, nd, step, true, u, 0, &x, sum);
        for (w = step; w + step <= words; w += step)
            byte_step(mr, nd, step, false, u, w, &x, sum);
    }
    for (; w < words; w++)
        if (w == 0)
            byte_step(mr, nd, 1, true, u, w, &x, sum);
        else
            byte_step(mr, nd, 1, false, u, w, &x, sum);
}

/* ---- AWQ4: a word is eight outputs of one input ---- */

#define AWQ_LINE (8 * VL) /* number of outputs in a vector of words */

/* Bytes of four inputs: word l of lane 4 q + b of to[k] is byte b of word 4 q + k of each. */
V_INLINE void awq_turn(const vi in[4], vi to[4])
{
    const __m512i a = _mm512_unpacklo_epi8((__m512i)in[0], (__m512i)in[1]),
                  b = _mm512_unpackhi_epi8((__m512i)in[0], (__m512i)in[1]),
                  c = _mm512_unpacklo_epi8((__m512i)in[2], (__m512i)in[3]),
                  d = _mm512_unpackhi_epi8((__m512i)in[2], (__m512i)in[3]);
    to[0] = (vi)_mm512_unpacklo_epi16(a, c);
    to[1] = (vi)_mm512_unpackhi_epi16(a, c);
    to[2] = (vi)_mm512_unpacklo_epi16(b, d);
    to[3] = (vi)_mm512_unpackhi_epi16(b, d);
}

/* Adds inputs i .. i + 8 blocks - 1 of a unit to the sums of the outputs of `words` words from
 * output v on. The sums of lane 4 q + b of vector 2 k or 2 k + 1 belong to the low or high half
 * of byte b of word 4 q + k. */
V_INLINE void awq_line(int mr, int nd, int blocks, bool fresh, const packed_unit *u, int64_t i,
                       int64_t v, int64_t words, int32_t *sum)
{
    const uint32_t *q = u->q + i * u->ldq + v / 8;
    vi turned[4][4];
    V_UNROLL
    for (int b = 0; b < 2 * blocks; b++) { /* inputs of even or of odd index of a block */
        vi line[4];
        V_UNROLL
        for (int k = 0; k < 4; k++) {
            const uint32_t *at = q + (b / 2 * 8 + 2 * k + b % 2) * u->ldq;
            line[k] = words < VL ? (vi)v_load_n((const float *)(const void *)at, words)
                                 : v_loadi((const int32_t *)at);
            prefetch_weights(at + u->ahead * u->ldq);
        }
        awq_turn(line, turned[b]);
    }
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        const span *x = u->x + r * u->ldx;
        V_UNROLL
        for (int k = 0; k < 4; k++) {
            pair_sum part[2][DIGITS];
            V_UNROLL
            for (int h = 0; h < 2; h++) {
                V_UNROLL
                for (int d = 0; d < nd; d++)
                    part[h][d].sum =
                        fresh ? (vi){0}
                              : v_loadi(packed_sum(sum, mr, nd, v + (2 * k + h) * VL, r, d));
            }
            V_UNROLL
            for (int b = 0; b < 2 * blocks; b++) {
                const vi low = turned[b][k] & LOW_BYTES,
                         high = (vi)((vu)turned[b][k] >> 4) & LOW_BYTES;
                V_UNROLL
                for (int d = 0; d < nd; d++) {
                    const vi digit =
                        word_at(&x->digit[d][b % 2][(u->input + i + b / 2 * 8) / 2]);
                    add_dots(&part[0][d], low, digit);
                    add_dots(&part[1][d], high, digit);
                }
            }
            V_UNROLL
            for (int h = 0; h < 2; h++) {
                V_UNROLL
                for (int d = 0; d < nd; d++)
                    v_store(
                        (float *)(void *)packed_sum(sum, mr, nd, v + (2 * k + h) * VL, r, d),
                        (vf)part[h][d].sum);
            }
        }
    }
}

/* Brings the sums of AWQ_LINE outputs into the order of the outputs. Byte b of a word has
 * outputs 0, 4, 1, 5 [b] in its low half and 2, 6, 3, 7 [b] in its high half. */
V_INLINE void awq_order(int mr, int nd, int64_t v, int r, int d, int32_t *sum)
{
    __m512i s[8];
    V_UNROLL
    for (int k = 0; k < 4; k++) {
        const vf low = (vf)v_loadi(packed_sum(sum, mr, nd, v + 2 * k * VL, r, d)),
                 high = (vf)v_loadi(packed_sum(sum, mr, nd, v + (2 * k + 1) * VL, r, d));
        s[2 * k] = (__m512i)_mm512_shuffle_ps(low, high, 0x88);     /* outputs 0 .. 3 */
        s[2 * k + 1] = (__m512i)_mm512_shuffle_ps(low, high, 0xdd); /* outputs 4 .. 7 */
    }
    V_UNROLL
    for (int k = 0; k < 2; k++) { /* words 4 q + 2 k and 4 q + 2 k + 1: quarters become q */
        const __m512i *p = s + 4 * k;
        const __m512i a = _mm512_shuffle_i32x4(p[0], p[1], 0x44),
                      b = _mm512_shuffle_i32x4(p[2], p[3], 0x44),
                      c = _mm512_shuffle_i32x4(p[0], p[1], 0xee),
                      e = _mm512_shuffle_i32x4(p[2], p[3], 0xee);
        const __m512i to[4] = {
            _mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd),
            _mm512_shuffle_i32x4(c, e, 0x88), _mm512_shuffle_i32x4(c, e, 0xdd)};
        V_UNROLL
        for (int q = 0; q < 4; q++)
            v_store((float *)(void *)packed_sum(sum, mr, nd, v + (2 * q + k) * VL, r, d),
                    (vf)to[q]);
    }
}

V_INLINE void awq_step(int mr, int nd, int blocks, bool fresh, const packed_unit *u, int64_t i,
                       int32_t *sum)
{
    int64_t v = 0;
    for (; v + AWQ_LINE <= u->n; v += AWQ_LINE)
        awq_line(mr, nd, blocks, fresh, u, i, v, VL, sum);
    if (v < u->n) awq_line(mr, nd, blocks, fresh, u, i, v, (u->n - v) / 8, sum);
}

V_INLINE void awq_run(int mr, int nd, const packed_unit *u, int32_t *sum)
{
    int64_t i = 0;
    if (u->inputs >= 16) {
        awq_step(mr, nd, 2, true, u, 0, sum);
        for (i = 16; i + 16 <= u->inputs; i += 16)
            awq_step(mr, nd, 2, false, u, i, sum);
    }
    if (i == 0)
        awq_step(mr, nd, 1, true, u, 0, sum);
    else if (i < u->inputs)
        awq_step(mr, nd, 1, false, u, i, sum);
    for (int64_t v = 0; v < u->n; v += AWQ_LINE)
        for (int r = 0; r < mr; r++)
            for (int d = 0; d < nd; d++)
                awq_order(mr, nd, v, r, d, sum);
}

#endif
