/* many_bytes.h: functions for gptq_many.c, on processors that multiply and add four bytes in
 * one instruction (AVX-512 VNNI).
 *
 * Numbers of x become integers of nearly 12 bits, so bf16 numbers of at least 1/6 of the
 * largest number of a span keep all bits. An instruction multiplies bytes, and a byte of a word
 * contains two weights, a + 16 b. The sum of a X + b Y takes two instructions if X and Y have 8
 * bits, and four if they have 16 bits in two digits. Three are enough for 12 bits:
 *
 *     a X + b Y = a p + (a + 16 b) u + (16 a + b) v,   X = p + u + 16 v,   Y = 16 u + v
 *
 * This is possible because p, u and v of 8 bits exist for all |X|, |Y| <= MOST. */
#ifndef MF_SIMD_MANY_BYTES_H
#define MF_SIMD_MANY_BYTES_H

#include "kernels/cpu/simd/stored/many.h"

/* number of rows at a time: their sums of two vectors of outputs stay in registers */
#define MR         12
#define BITS       10
#define MOST       MF_STORED_MOST
#define WORD_BYTES 4 /* bytes of p for the inputs of a word */
#define WORD_ROWS  1 /* number of rows of weights for the inputs of a word */

/* SPAN numbers of a row, two neighbouring numbers in each byte. */
typedef struct __attribute__((aligned(64))) terms {
    int8_t p[SPAN / 2], u[SPAN / 2], v[SPAN / 2];
} terms;

/* ---- rows as integers ---- */

V_INLINE uint32_t largest_of(const uint16_t *x)
{
    const vi low = v_seti(0xffff), size = v_seti(0x7fff7fff);
    vi most = {0};
    for (int i = 0; i < SPAN; i += 2 * VL)
        most = (vi)_mm512_max_epu16((__m512i)most,
                                    (__m512i)(v_loadi((const void *)(x + i)) & size));
    most = (vi)_mm512_max_epu32((__m512i)(most & low), (__m512i)((vu)most >> 16));
    return _mm512_reduce_max_epu32((__m512i)most);
}

V_INLINE void store_bytes(int8_t *to, vi x)
{
    _mm_store_si128((void *)to, _mm512_cvtepi32_epi8((__m512i)x));
}

/* v = v0 + 16 k is Y modulo 16, v0 in -8 .. 7, and k is such that |p| <= 127. |k| <= 7, since
 * |X - u0 - 16 v0| <= MOST + (MOST + 8) / 16 + 128 < 7.5 * 255; so |v| <= 120, |u| <= 112. */
V_INLINE void store_terms(int at, vi x, vi y, terms *to)
{
    const vi v0 = ((y + 8) & 15) - 8, u0 = (y - v0) >> 4, rest = x - u0 - 16 * v0;
    const vf part = __builtin_convertvector(rest, vf) * (1 / 255.0f);
    const vi k = (vi)_mm512_cvtps_epi32(part);
    store_bytes(to->p + at, rest - 255 * k);
    store_bytes(to->u + at, u0 - k);
    store_bytes(to->v + at, v0 + 16 * k);
}

V_INLINE void integers_of(const uint16_t *x, float inverse, terms *to,
                          int32_t sum[SPAN / QUARTER])
{
    const vi low = v_seti(0xffff);
    for (int i = 0; i < SPAN / 2; i += VL) {
        const vi pairs = inverse == 0 ? (vi){0} : v_loadi((const void *)(x + 2 * i)),
                 even = (vi)_mm512_cvtps_epi32((vf)(pairs << 16) * inverse),
                 odd = (vi)_mm512_cvtps_epi32((vf)(pairs & ~low) * inverse);
        store_terms(i, even, odd, to);
        sum[2 * i / QUARTER] = _mm512_reduce_add_epi32((__m512i)(even + odd));
    }
}

/* ---- sums ---- */

/* Copies weights in the layout of the file. The file aligns words to 4 or 8 bytes, and all rows
 * need the weights, so they are copied. */
V_INLINE void spread_words(const uint32_t *word, int64_t ld, int64_t words, uint32_t *room)
{
    for (int64_t i = 0; i < words; i++)
        memcpy(room + i * COLUMNS, word + i * ld, COLUMNS * sizeof *room);
}

/* Returns the four bytes at p in each lane. */
V_INLINE vi four_bytes(const int8_t *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return v_seti(word);
}

V_INLINE vi add_dots(vi sum, vi u, vi s)
{
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u, (__m512i)s);
}

V_INLINE void add_words(int mr, int64_t words, const uint32_t *word, const int8_t *x,
                        vi sum[MR][2])
{
    const vi mask = v_seti(0x0f0f0f0f);
    for (int64_t i = 0; i < words; i++, word += COLUMNS, x += WORD_BYTES) {
        vi both[2], low[2], turned[2]; /* the values a + 16 b, a, and 16 a + b */
        V_UNROLL
        for (int v = 0; v < 2; v++) {
            both[v] = v_loadi((const void *)(word + v * VL));
            low[v] = both[v] & mask;
            turned[v] = (low[v] << 4) | ((vi)((vu)both[v] >> 4) & mask);
        }
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            const int8_t *at = x + r * (int64_t)sizeof(terms);
            const vi p = four_bytes(at + offsetof(terms, p)),
                     u = four_bytes(at + offsetof(terms, u)),
                     w = four_bytes(at + offsetof(terms, v));
            sum[r][0] = add_dots(sum[r][0], low[0], p);
            sum[r][1] = add_dots(sum[r][1], low[1], p);
            sum[r][0] = add_dots(sum[r][0], both[0], u);
            sum[r][1] = add_dots(sum[r][1], both[1], u);
            sum[r][0] = add_dots(sum[r][0], turned[0], w);
            sum[r][1] = add_dots(sum[r][1], turned[1], w);
        }
    }
}

#endif
