/* codes.h: converts codes of 4 and 8 bits to vectors of f32, without their scales. */
#ifndef MF_SIMD_CODES_H
#define MF_SIMD_CODES_H

#include "kernels/cpu/simd/stored/four_bits.h"

/* Loads n bytes, at most VL, as integers; the other lanes are 0. */
V_INLINE vi code_bytes(const uint8_t *p, int64_t n)
{
    uint8_t padded[VL] = {0};
    if (n < VL) {
        memcpy(padded, p, (size_t)n);
        p = padded;
    }
#if VL == 16
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p));
#elif VL == 8
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p));
#else
    vi v = {0};
    for (int i = 0; i < VL; i++)
        v[i] = p[i];
    return v;
#endif
}

/* Loads n words, at most VL; the other lanes are 0. */
V_INLINE vi code_words(const uint32_t *p, int64_t n)
{
    return n < VL ? (vi)v_load_n((const float *)(const void *)p, n)
                  : v_loadi((const int32_t *)(const void *)p);
}

V_INLINE vf code_floats(vi code)
{
    return __builtin_convertvector(code, vf);
}

/* ---- 8-bit numbers ---- */

/* The type must be a constant for the compiler. */
V_INLINE float f8_factor(mf_stored_type type)
{
    return type == MF_STORED_F8_E4M3 ? 256 : 1;
}

/* Converts 2 VL numbers to f32, divided by f8_factor. E4M3 has the exponents of f16 times 2^8,
 * so a shift of the magnitude gives an f16. 0x7f, which is NaN, gets the exponent of NaN. */
V_INLINE void f8_numbers(mf_stored_type type, const uint8_t *p, vf to[2])
{
#if VL == 16
    __m512i h = _mm512_slli_epi16(_mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)p)), 8);
    if (type == MF_STORED_F8_E4M3) {
        const __m512i nan = _mm512_set1_epi16(0x7f00);
        const __mmask32 is_nan = _mm512_cmpeq_epi16_mask(_mm512_and_si512(h, nan), nan);
        h = _mm512_and_si512(_mm512_srai_epi16(h, 1), _mm512_set1_epi16((short)0xbfff));
        h = _mm512_mask_mov_epi16(h, is_nan, _mm512_set1_epi16(0x7e00));
    }
    to[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(h));
    to[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(h, 1));
#elif VL == 8
    __m256i h = _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p)), 8);
    if (type == MF_STORED_F8_E4M3) {
        const __m256i nan = _mm256_set1_epi16(0x7f00);
        const __m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(h, nan), nan);
        h = _mm256_and_si256(_mm256_srai_epi16(h, 1), _mm256_set1_epi16((short)0xbfff));
        h = _mm256_or_si256(h, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
    }
    to[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(h));
    to[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1));
#else
    for (int i = 0; i < 2 * VL; i++)
        to[i / VL][i % VL] = mf_f8_to_f32(type, p[i]) / f8_factor(type);
#endif
}

#if VL > 4
/* The same for 4 VL numbers of which none is NaN. */
V_INLINE void f8_finite(mf_stored_type type, const uint8_t *p, vf to[4])
{
    V_UNROLL
    for (int h = 0; h < 2; h++, p += 2 * VL) {
#if VL == 16
        const __m256i bytes = _mm256_loadu_si256((const void *)p);
        __m512i v;
        if (type == MF_STORED_F8_E4M3) /* the sign is extended, and one copy of it cleared */
            v = _mm512_and_si512(_mm512_slli_epi16(_mm512_cvtepi8_epi16(bytes), 7),
                                 _mm512_set1_epi16((short)0xbfff));
        else
            v = _mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), 8);
        to[2 * h] = _mm512_cvtph_ps(_mm512_castsi512_si256(v));
        to[2 * h + 1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(v, 1));
#else
        const __m128i bytes = _mm_loadu_si128((const void *)p);
        __m256i v;
        if (type == MF_STORED_F8_E4M3)
            v = _mm256_and_si256(_mm256_slli_epi16(_mm256_cvtepi8_epi16(bytes), 7),
                                 _mm256_set1_epi16((short)0xbfff));
        else
            v = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8);
        to[2 * h] = _mm256_cvtph_ps(_mm256_castsi256_si128(v));
        to[2 * h + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1));
#endif
    }
}

/* Finds NaN among 4 VL numbers of E4M3; results are added by |. E5M2 needs no such test,
 * because its NaN are those of f16. */
#if VL == 16
typedef __m512i f8_found;
V_INLINE f8_found f8_nans(f8_found before, const uint8_t *p)
{
    const __m512i bytes = _mm512_loadu_si512(p);
    return _mm512_max_epu8(before, _mm512_add_epi8(bytes, bytes));
}
V_INLINE bool f8_any(f8_found found)
{
    return _mm512_cmpeq_epi8_mask(found, _mm512_set1_epi8((char)0xfe)) != 0;
}
#else
typedef vi f8_found;
V_INLINE f8_found f8_nans(f8_found before, const uint8_t *p)
{
    const __m256i nan = _mm256_set1_epi8(0x7f), bytes = _mm256_loadu_si256((const void *)p);
    return before | (vi)_mm256_cmpeq_epi8(_mm256_and_si256(bytes, nan), nan);
}
V_INLINE bool f8_any(f8_found found)
{
    return _mm256_movemask_epi8((__m256i)found) != 0;
}
#endif
#endif

/* ---- columns: outputs are neighbours ---- */

/* Returns the codes of VL outputs from o on, a multiple of VL, in a row of AWQ4. n of them
 * exist, a multiple of 8. */
V_INLINE vi awq_codes(const uint32_t *row, int64_t o, int64_t n)
{
#if VL == 16
    const int32_t first = (int32_t)row[o / 8], second = n > 8 ? (int32_t)row[o / 8 + 1] : 0;
    const __m512i both = _mm512_mask_set1_epi32(_mm512_set1_epi32(first), 0xff00, second);
    const vi shift = {0, 16, 4, 20, 8, 24, 12, 28, 0, 16, 4, 20, 8, 24, 12, 28};
    return (vi)((vu)both >> (vu)shift) & 15;
#elif VL == 8
    const vi shift = {0, 16, 4, 20, 8, 24, 12, 28};
    (void)n;
    return (vi)((vu)v_seti((int32_t)row[o / 8]) >> (vu)shift) & 15;
#else
    const vi shift = {0, 16, 4, 20};
    (void)n;
    return (vi)((vu)v_seti((int32_t)(row[o / 8] >> (o % 8 ? 8 : 0))) >> (vu)shift) & 15;
#endif
}

/* Returns the numbers that are subtracted from the codes of group g for n outputs from o on,
 * n at most VL, of GPTQ4, GPTQ8 or AWQ4; all other lanes are undefined. */
V_INLINE vf code_zeros(mf_stored_type type, const mf_stored_part *p, int64_t g, int64_t o,
                       int64_t n)
{
    if (type == MF_STORED_GPTQ4) return gptq_zeros(p, g, o, n);
    if (type == MF_STORED_AWQ4)
        return code_floats(awq_codes((const uint32_t *)p->zeros + g * (p->rows / 8), o, n));
    const vi zero = code_bytes((const uint8_t *)p->zeros + g * p->rows + o, n);
    return code_floats(zero + (p->whole_zeros ? 0 : 1));
}

#endif
