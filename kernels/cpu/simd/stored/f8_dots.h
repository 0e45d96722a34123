/* f8_dots.h: dot products of a few rows with 8-bit numbers, for processors that look up bytes
 * in tables of 128 (AVX-512 VBMI) and multiply pairs of bf16. Two lookups give the bytes of a
 * number as bf16, which is exact. Rows that were bf16 are multiplied in bf16, others in f32.
 * This takes .4 or .7 of the operations of a conversion to f16 and from there to f32.
 *
 * 64 numbers become two or four vectors. Their order is that of the operations, and rows of x
 * are copied in this order. */
#ifndef MF_SIMD_F8_DOTS_H
#define MF_SIMD_F8_DOTS_H

#include "kernels/cpu/simd/stored/codes.h"
#include "kernels/cpu/simd/stored/stored.h"

#define F8_LINE   (4 * VL) /* numbers of a vector of bytes */
#define F8_AHEAD  4096     /* bytes between a load and its prefetch */
#define F8_TARGET __attribute__((target("avx512vbmi")))

/* The upper and the lower bytes of the bf16 of the numbers 0 .. 127, which are not negative,
 * divided by f8_factor. */
typedef struct f8_tables {
    uint8_t high[128], low[128];
} __attribute__((aligned(64))) f8_tables;

V_INLINE void f8_fill(mf_stored_type type, f8_tables *to)
{
    uint8_t code[2 * VL];
    for (int i = 0; i < 128; i += 2 * VL) {
        vf v[2];
        for (int k = 0; k < 2 * VL; k++)
            code[k] = (uint8_t)(i + k);
        f8_numbers(type, code, v);
        for (int h = 0; h < 2; h++) {
            const __m512i bits = (__m512i)v[h];
            _mm_store_si128((void *)(to->high + i + h * VL),
                            _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 24)));
            _mm_store_si128((void *)(to->low + i + h * VL),
                            _mm512_cvtepi32_epi8(_mm512_srli_epi32(bits, 16)));
        }
    }
}

/* Returns numbers i .. i + VL - 1 of x; 0 from number n on. */
V_INLINE vf f8_inputs(int64_t n, const float *x, int64_t i)
{
    return n - i >= VL ? v_load(x + i) : n <= i ? (vf){0} : v_load_n(x + i, n - i);
}

/* Copies n numbers of x in the order of f8_line, with zeros up to a multiple of F8_LINE. Of
 * each 16 numbers 0 2 4 6 come into the first vector, 1 3 5 7 into the second, 8 10 12 14 into
 * the third, and the others into the last. As bf16, of each 16 numbers the first 8 come into
 * the first vector. */
V_INLINE void f8_order(bool bf16, int64_t n, const float *x, char *to)
{
    const __m512i order =
        _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    for (int64_t i = 0; i < n; i += F8_LINE, to += F8_LINE * (bf16 ? 2 : 4)) {
        vf a[4], b[4];
        V_UNROLL
        for (int k = 0; k < 4; k++)
            a[k] = f8_inputs(n, x, i + k * VL);
        if (bf16) {
            __m256i h[4];
            V_UNROLL
            for (int k = 0; k < 4; k++)
                h[k] = _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)a[k], 16));
            const __m512i c = _mm512_inserti64x4(_mm512_castsi256_si512(h[0]), h[1], 1),
                          d = _mm512_inserti64x4(_mm512_castsi256_si512(h[2]), h[3], 1);
            _mm512_store_si512(to, _mm512_shuffle_i64x2(c, d, 0x88));
            _mm512_store_si512(to + 64, _mm512_shuffle_i64x2(c, d, 0xdd));
            continue;
        }
        V_UNROLL
        for (int k = 0; k < 4; k++)
            a[k] = _mm512_permutexvar_ps(order, a[k]);
        V_UNROLL
        for (int k = 0; k < 2; k++) {
            b[k] = _mm512_shuffle_f32x4(a[2 * k], a[2 * k + 1], 0x44);
            b[2 + k] = _mm512_shuffle_f32x4(a[2 * k], a[2 * k + 1], 0xee);
        }
        V_UNROLL
        for (int k = 0; k < 4; k += 2) {
            _mm512_store_ps(to + k * 64, _mm512_shuffle_f32x4(b[k], b[k + 1], 0x88));
            _mm512_store_ps(to + k * 64 + 64, _mm512_shuffle_f32x4(b[k], b[k + 1], 0xdd));
        }
    }
}

/* Adds F8_LINE numbers to the sums of `rows` rows of x, ldx bytes apart. */
F8_TARGET V_INLINE void f8_line(bool bf16, int rows, __m512i code, const __m512i table[4],
                                const char *x, int64_t ldx, vf sum[STORED_FEW][2])
{
    const __m512i sign = _mm512_set1_epi8((char)0x80),
                  upper = _mm512_set1_epi32((int)0xffff0000),
                  size = _mm512_permutex2var_epi8(table[0], code, table[1]),
                  low = _mm512_permutex2var_epi8(table[2], code, table[3]),
                  high = _mm512_ternarylogic_epi32(size, code, sign, 0xf8), /* a | (b & c) */
        half[2] = {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
    V_UNROLL
    for (int r = 0; r < rows; r++, x += ldx) {
        V_UNROLL
        for (int h = 0; h < 2; h++) {
            const vf even = (vf)_mm512_slli_epi32(half[h], 16),
                     odd = (vf)_mm512_and_si512(half[h], upper);
            if (bf16) {
                sum[r][h] = (vf)_mm512_dpbf16_ps(
                    sum[r][h], (__m512bh)half[h],
                    (__m512bh)_mm512_load_si512((const void *)(x + h * 64)));
            } else {
                const float *at = (const float *)(const void *)(x + h * 128);
                sum[r][0] = v_fma(v_load(at), even, sum[r][0]);
                sum[r][1] = v_fma(v_load(at + VL), odd, sum[r][1]);
            }
        }
    }
}

/* Computes y[r] for `rows` rows of x and row o of W. Groups of inputs are whole lines. */
F8_TARGET V_INLINE void f8_row(mf_stored_type type, bool bf16, int rows,
                               const mf_stored_part *p, int64_t in, int64_t o,
                               const __m512i table[4], const char *x, int64_t ldx, float *y,
                               int64_t ldy)
{
    const uint8_t *w = (const uint8_t *)p->data + o * in;
    const int64_t scales = o / p->scale_rows * p->groups;
    const bool plain = p->scale_type == MF_SCALE_F32;
    vf total[STORED_FEW];
    V_UNROLL
    for (int r = 0; r < rows; r++)
        total[r] = (vf){0};
    for (int64_t g = 0, i = 0; g < p->groups; g++) {
        const int64_t end = (g + 1) * p->group_size < in ? (g + 1) * p->group_size : in;
        const vf scale = v_set(plain ? ((const float *)p->scales)[scales + g]
                                     : mf_stored_scale(p, scales + g));
        vf sum[STORED_FEW][2];
        V_UNROLL
        for (int r = 0; r < rows; r++)
            sum[r][0] = sum[r][1] = (vf){0};
        for (; i < end; i += F8_LINE) {
            const __m512i code =
                end - i >= F8_LINE
                    ? _mm512_loadu_si512(w + i)
                    : _mm512_maskz_loadu_epi8(~(~(__mmask64)0 << (end - i)), w + i);
            prefetch_weights(w + i + F8_AHEAD);
            f8_line(bf16, rows, code, table, x + i * (bf16 ? 2 : 4), ldx, sum);
        }
        V_UNROLL
        for (int r = 0; r < rows; r++)
            total[r] = v_fma(scale, (sum[r][0] + sum[r][1]) * f8_factor(type), total[r]);
    }
    V_UNROLL
    for (int r = 0; r < rows; r++)
        y[r * ldy] = v_sum(total[r]);
}

F8_TARGET V_INLINE void f8_rows(mf_stored_type type, bool bf16, int rows,
                                const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                const float *x, int64_t ldx, float *y, int64_t ldy)
{
    const int64_t row = (in + F8_LINE - 1) / F8_LINE * F8_LINE * (bf16 ? 2 : 4);
    char *order = __builtin_alloca_with_align((size_t)(rows * row), 512);
    f8_tables t;
    f8_fill(type, &t);
    for (int r = 0; r < rows; r++)
        f8_order(bf16, in, x + r * ldx, order + r * row);
    const __m512i table[4] = {_mm512_load_si512(t.high), _mm512_load_si512(t.high + 64),
                              _mm512_load_si512(t.low), _mm512_load_si512(t.low + 64)};
    for (int64_t o = o0; o < o1; o++)
        f8_row(type, bf16, rows, p, in, o, table, order, row, y + o - o0, ldy);
}

#define F8_RUN(type, bf16, rows) f8_rows(type, bf16, rows, p, in, o0, o1, x, ldx, y, ldy)
#define F8_FEW_OF(name, type, bf16)                                                            \
    static F8_TARGET void name(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,    \
                               int64_t rows, const float *x, int64_t ldx, float *y,            \
                               int64_t ldy)                                                    \
    {                                                                                          \
        rows == 1   ? F8_RUN(type, bf16, 1)                                                    \
        : rows == 2 ? F8_RUN(type, bf16, 2)                                                    \
        : rows == 3 ? F8_RUN(type, bf16, 3)                                                    \
                    : F8_RUN(type, bf16, 4);                                                   \
    }
F8_FEW_OF(f8_e4m3_f32, MF_STORED_F8_E4M3, false)
F8_FEW_OF(f8_e4m3_bf16, MF_STORED_F8_E4M3, true)
F8_FEW_OF(f8_e5m2_f32, MF_STORED_F8_E5M2, false)
F8_FEW_OF(f8_e5m2_bf16, MF_STORED_F8_E5M2, true)

#endif
