/* digits.h: rows of numbers as integers of two or three digits, which are multiplied with
 * weights of four or eight bits.
 *
 * A span of SPAN numbers has a scale, a power of two: x = scale X, where X is rounded to an
 * integer. X has two or three digits. Three digits hold 22 or 23 bits and a sign, nearly as
 * many as the largest number of the span has in f32. Two digits hold 14 or 15 bits and a sign.
 * They are for rows of bf16 and weights of four bits; numbers of at least 1/128 of the largest
 * number keep all bits. The
 * digits are those of X = d0 + 256 d1 + 65536 d2, each in -128 .. 127. Sums of digits times
 * weights of four bits are exact in 32 bits, so the sums of a span have the same bits in any
 * order, and for any number of rows. This method is used because the processor multiplies bytes
 * faster than it converts four bits to f32. */
#ifndef MF_SIMD_DIGITS_H
#define MF_SIMD_DIGITS_H

#include "kernels/cpu/simd/vec.h"

#define SPAN   128
#define DIGITS 3  /* maximum number of digits */
#define OFFSET 16 /* what is added to weights so that they are not negative */

/* Constants for rows that are bf16 or f32. DIGITS_OF: the number of digits. DIGITS_MOST: the
 * largest X that the digits can hold, 127 + 127 x 256, plus 127 x 65536 with three digits.
 * DIGITS_BITS: floor(log2) of this X. */
#define DIGITS_OF(bf16)     ((bf16) ? 2 : 3)
#define DIGITS_MOST(digits) ((digits) == 2 ? MF_STORED_MOST_DIGITS : 8355711)
#define DIGITS_BITS(digits) ((digits) == 2 ? 14 : 22)

/* One span of a row; numbers after the end of the row are 0. */
typedef struct __attribute__((aligned(64))) span {
    /* [d][0]: digit d of the numbers 0, 2, 4 ..; [d][1]: of the numbers 1, 3, 5 ... The digit
     * of number 2 i or 2 i + 1 is at digits_at(i). */
    int8_t digit[DIGITS][2][SPAN / 2];
    int32_t offset[VL];                 /* -OFFSET times the sums of X, see digits_sum */
    float digit_sum[DIGITS][SPAN / 32]; /* sums of the digits of 32 neighbouring numbers */
    float scale;                        /* scale; NaN if a number of the span is not finite */
} span;

static inline int64_t spans_of(int64_t n)
{
    return (n + SPAN - 1) / SPAN;
}

/* Returns the position of byte i of a half of a digit. With AVX2 pieces of eight bytes
 * change places, like the pieces of MXFP4 weights (mx_dots.h): the bits of their number
 * are reversed. */
static inline int digits_at(int i)
{
    return VL == 8 ? (i & 8) << 2 | (i & 16) | (i & 32) >> 2 | (i & 7) : i;
}

/* Rounds to the nearest integer. Halves are rounded away from 0. With two digits, where halves
 * are frequent, they are rounded to the even integer, as kernels/stored.h describes. */
V_INLINE vi digits_round(int digits, vf x)
{
#if VL == 16
    if (digits == 2) return (vi)_mm512_cvtps_epi32(x);
#elif VL == 8
    if (digits == 2) return (vi)_mm256_cvtps_epi32(x);
#endif
    return __builtin_convertvector(x + v_select(x < 0, v_set(-0.5f), v_set(0.5f)), vi);
}

#define SWAP_FOUR(w, i) i + (0 ^ (w)), i + (1 ^ (w)), i + (2 ^ (w)), i + (3 ^ (w))
#if VL == 16
#define SWAP_LANES(w) SWAP_FOUR(w, 0), SWAP_FOUR(w, 4), SWAP_FOUR(w, 8), SWAP_FOUR(w, 12)
#define EVEN_LANES    0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_LANES     1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif VL == 8
#define SWAP_LANES(w) SWAP_FOUR(w, 0), SWAP_FOUR(w, 4)
#define EVEN_LANES    0, 2, 4, 6, 8, 10, 12, 14
#define ODD_LANES     1, 3, 5, 7, 9, 11, 13, 15
#endif

/* Writes the lowest digit of each X as a byte, and returns (X - digit) / 256. */
V_INLINE vi digits_split(vi x, int8_t *to)
{
    typedef int8_t bytes __attribute__((vector_size(VL)));
    const vi low = x << 24 >> 24;
    const bytes b = __builtin_convertvector(low, bytes);
    memcpy(to, &b, sizeof b);
    return (x - low) >> 8;
}

/* Returns in each lane the sum of the four bytes of a word of both halves of a digit. */
V_INLINE vi digits_dots(const int8_t digit[2][SPAN / 2], int i)
{
    const vi even = v_loadi((const void *)&digit[0][i]),
             odd = v_loadi((const void *)&digit[1][i]);
#if VL == 16
    const __m512i one = _mm512_set1_epi8(1);
    const __m512i pairs = _mm512_add_epi16(_mm512_maddubs_epi16(one, (__m512i)even),
                                           _mm512_maddubs_epi16(one, (__m512i)odd));
    return (vi)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#else
    const __m256i one = _mm256_set1_epi8(1);
    const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(one, (__m256i)even),
                                           _mm256_maddubs_epi16(one, (__m256i)odd));
    return (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

/* Computes sums of digits, and sums of X in the same lanes in which mx_dots.h has sums of X
 * times weights. With AVX-512 lane i has the sum of X 8 i .. 8 i + 7. With AVX2 lanes 0 and 1
 * share the first 32 numbers, 4 and 5 the second, 2 and 3 the third, 6 and 7 the last. */
V_INLINE void digits_sum(int digits, span *to)
{
    typedef float blocks __attribute__((vector_size(sizeof to->digit_sum[0])));
    vi all = {0};
    V_UNROLL
    for (int d = digits - 1; d >= 0; d--) {
        vi one = digits_dots(to->digit[d], 0);
        if (VL == 8) one += digits_dots(to->digit[d], 4 * VL);
        vf sum = __builtin_convertvector(one, vf);
        sum += V_SHUFFLE(vi, sum, sum, SWAP_LANES(1));
#if VL == 16
        sum += V_SHUFFLE(vi, sum, sum, SWAP_LANES(2));
        const blocks each = {sum[0], sum[4], sum[8], sum[12]};
#else
        const blocks each = {sum[0], sum[4], sum[2], sum[6]};
#endif
        memcpy(to->digit_sum[d], &each, sizeof each);
        all = (all << 8) + one;
    }
    v_store((float *)to->offset, (vf)(all * -OFFSET));
}

/* Sets the scale of a span to the smallest power of two with which the largest |X| is at most
 * DIGITS_MOST, or to NaN. Returns 1 / scale, and 0 for NaN. */
static float span_scale(float largest, bool finite, int digits, span *to)
{
    uint32_t bits;
    largest = fmaxf(largest, 0x1p-96f);
    memcpy(&bits, &largest, sizeof bits);
    const uint32_t exponent = bits >> 23; /* largest is in 2^(exponent - 127) [1, 2) */
    bits = (127 + 127 + (uint32_t)DIGITS_BITS(digits) - exponent) << 23;
    float inverse;
    memcpy(&inverse, &bits, sizeof inverse);
    if (largest * inverse > (float)DIGITS_MOST(digits)) inverse *= 0.5f;
    to->scale = finite ? 1 / inverse : NAN;
    return finite ? inverse : 0;
}

/* Writes the n numbers of x, at most SPAN, as a span. */
V_INLINE void span_of(const float *x, int64_t n, int digits, span *to)
{
    float padded[SPAN] __attribute__((aligned(64)));
    int32_t whole[SPAN] __attribute__((aligned(64)));
    vf most = {0}, nothing = {0};
    if (n < SPAN) {
        memset(padded, 0, sizeof padded);
        memcpy(padded, x, (size_t)n * sizeof *x);
        x = padded;
    }
    for (int i = 0; i < SPAN; i += VL) {
        const vf v = v_load(x + i);
        most = v_max((vf)((vi)v & 0x7fffffff), most);
        nothing += v * 0; /* becomes NaN if v is not finite */
    }
    const bool finite = v_sum(nothing) == 0;
    const float inverse = span_scale(v_hmax(most), finite, digits, to);
    for (int i = 0; i < SPAN; i += VL) {
        const vf v = v_load(x + i) * inverse;
        v_store((float *)whole + i, (vf)digits_round(digits, finite ? v : (vf){0}));
    }
    for (int i = 0; i < SPAN / 2; i += VL) {
        const vi a = v_loadi(whole + 2 * i), b = v_loadi(whole + 2 * i + VL);
        vi even = V_SHUFFLE(vi, a, b, EVEN_LANES), odd = V_SHUFFLE(vi, a, b, ODD_LANES);
        V_UNROLL
        for (int d = 0; d < digits; d++) {
            even = digits_split(even, &to->digit[d][0][digits_at(i)]);
            odd = digits_split(odd, &to->digit[d][1][digits_at(i)]);
        }
    }
    digits_sum(digits, to);
}

/* Writes rows of n numbers as spans [rows, spans_of(n)], with 2 or 3 digits. */
static inline void spans_fill(int64_t rows, int64_t n, const float *x, int64_t ldx, int digits,
                              span *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i += SPAN) {
            const int64_t some = n - i < SPAN ? n - i : SPAN;
            span *s = to + r * spans_of(n) + i / SPAN;
            if (digits == 2)
                span_of(x + r * ldx + i, some, 2, s);
            else
                span_of(x + r * ldx + i, some, 3, s);
        }
}

#endif
