/* many_pairs.h: functions for gptq_many.c, on processors with AVX2: an instruction multiplies
 * two integers of 16 bits in each lane, and adds the two results.
 *
 * Numbers of x become integers of 16 bits, so bf16 numbers of at least 1/128 of the largest
 * number of a span keep all bits. A lane of weights has inputs i and i + 4 of a word, which one
 * shift and one mask extract from the word. All rows need these lanes, so they are stored. */
#ifndef MF_SIMD_MANY_PAIRS_H
#define MF_SIMD_MANY_PAIRS_H

#include "kernels/cpu/simd/stored/many.h"

/* number of rows at a time: their sums of two vectors of outputs stay in registers */
#define MR         6
#define BITS       14
#define MOST       MF_STORED_MOST_16
#define WORD_BYTES 16 /* bytes of a row for the inputs of a word */
#define WORD_ROWS  4  /* number of rows of pairs of weights for the inputs of a word */

/* SPAN numbers of a row; each eight numbers are in the order 0, 4, 1, 5, 2, 6, 3, 7. */
typedef struct __attribute__((aligned(64))) terms {
    int16_t x[SPAN];
} terms;

/* ---- rows as integers ---- */

V_INLINE uint32_t largest_of(const uint16_t *x)
{
    const __m256i size = _mm256_set1_epi16(0x7fff);
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < SPAN; i += 16)
        most = _mm256_max_epu16(
            most, _mm256_and_si256(size, _mm256_loadu_si256((const void *)(x + i))));
    const __m128i half =
        _mm_max_epu16(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    /* the instruction finds the smallest number, so all bits are inverted */
    const __m128i ones = _mm_set1_epi16(-1),
                  least = _mm_minpos_epu16(_mm_xor_si128(half, ones));
    return 0xffff & ~(uint32_t)_mm_cvtsi128_si32(least);
}

V_INLINE int32_t add_lanes(__m256i x)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

V_INLINE void integers_of(const uint16_t *x, float inverse, terms *to,
                          int32_t sum[SPAN / QUARTER])
{
    const __m256 factor = _mm256_set1_ps(inverse);
    __m256i all = _mm256_setzero_si256();
    for (int i = 0; i < SPAN; i += 8) {
        const __m128i bits =
            inverse == 0 ? _mm_setzero_si128() : _mm_loadu_si128((const void *)(x + i));
        const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16),
                      whole =
                          _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(wide), factor));
        const __m128i low = _mm256_castsi256_si128(whole),
                      high = _mm256_extracti128_si256(whole, 1);
        _mm_store_si128((void *)(to->x + i),
                        _mm_blend_epi16(low, _mm_slli_epi32(high, 16), 0xaa));
        all = _mm256_add_epi32(i % QUARTER ? all : _mm256_setzero_si256(), whole);
        if (i % QUARTER == QUARTER - 8) sum[i / QUARTER] = add_lanes(all);
    }
}

/* ---- sums ---- */

V_INLINE void spread_words(const uint32_t *word, int64_t ld, int64_t words, uint32_t *room)
{
    const vi mask = v_seti(0x000f000f);
    for (int64_t i = 0; i < words; i++)
        for (int64_t v = 0; v < COLUMNS; v += VL) {
            const vu both = (vu)v_loadi((const void *)(word + i * ld + v));
            V_UNROLL
            for (int k = 0; k < WORD_ROWS; k++)
                _mm256_store_si256((void *)(room + (i * WORD_ROWS + k) * COLUMNS + v),
                                   (__m256i)((vi)(both >> (4 * k)) & mask));
        }
}

V_INLINE vi add_dots(vi sum, vi w, vi x)
{
    return sum + (vi)_mm256_madd_epi16((__m256i)w, (__m256i)x);
}

V_INLINE void add_words(int mr, int64_t words, const uint32_t *word, const int8_t *x,
                        vi sum[MR][2])
{
    for (int64_t i = 0; i < words * WORD_ROWS; i++, word += COLUMNS, x += 4) {
        const vi w0 = v_loadi((const void *)word), w1 = v_loadi((const void *)(word + VL));
        V_UNROLL
        for (int r = 0; r < mr; r++) {
            int32_t pair;
            memcpy(&pair, x + r * (int64_t)sizeof(terms), sizeof pair);
            sum[r][0] = add_dots(sum[r][0], w0, v_seti(pair));
            sum[r][1] = add_dots(sum[r][1], w1, v_seti(pair));
        }
    }
}

#endif
