/* four_bits.h: converts the parts of stored weights of four bits to vectors. */
#ifndef MF_SIMD_FOUR_BITS_H
#define MF_SIMD_FOUR_BITS_H

#include "kernels/kernel.h"
#include "kernels/cpu/simd/stored/ahead.h"

/* Loads n f16 numbers, at most VL; the other lanes are 0. */
V_INLINE vf v_load_f16(const uint16_t *p, int64_t n)
{
    uint16_t padded[VL] = {0};
    if (n < VL) {
        memcpy(padded, p, (size_t)n * sizeof *p);
        p = padded;
    }
#if VL == 16
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
#elif VL == 8
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
#else
    vi bits = {0};
    for (int i = 0; i < VL; i++)
        bits[i] = p[i];
    /* The exponent of f16 is too small by 112 if it is read as an exponent of f32, also for
     * subnormal numbers. */
    const vf size = (vf)((bits & 0x7fff) << 13) * 0x1p112f;
    const vi special = (bits & 0x7c00) == 0x7c00;
    return (vf)((vi)size | ((bits & 0x8000) << 16) | (special & 0x7f800000));
#endif
}

/* Loads the scales of n outputs, at most VL, of a part [groups,rows]; the other lanes are 0. */
V_INLINE vf gptq_scales(const mf_stored_part *p, int64_t g, int64_t o, int64_t n)
{
    const uint16_t *from = (const uint16_t *)p->scales + g * p->rows + o;
    if (p->scale_type == MF_SCALE_F16) return v_load_f16(from, n);
    return n < VL ? v_load_bf16_n(from, n) : v_load_bf16(from);
}

/* Returns the numbers that are subtracted from codes (zero, or zero + 1) of group g for the
 * outputs o .. o + n - 1, n at most VL; all other lanes are undefined. */
V_INLINE vf gptq_zeros(const mf_stored_part *p, int64_t g, int64_t o, int64_t n)
{
    const uint32_t *zeros = (const uint32_t *)p->zeros + g * (p->rows / 8);
    vu z = {0};
#if VL == 16
    const uint32_t first = zeros[o / 8], second = n > 8 ? zeros[o / 8 + 1] : 0;
    z = (vu)_mm512_mask_set1_epi32(_mm512_set1_epi32((int)first), 0xff00, (int)second);
    z >>= (vu)(V_LANES * 4 & 31);
#elif VL == 8
    (void)n;
    z = (vu)v_seti((int32_t)zeros[o / 8]) >> (vu)(V_LANES * 4);
#else
    (void)n;
    z = (vu)v_seti((int32_t)zeros[o / 8]) >> (vu)((V_LANES + (int32_t)(o % 8)) * 4);
#endif
    return __builtin_convertvector((vi)(z & 15) + (p->whole_zeros ? 0 : 1), vf);
}

/* Twice the values of MXFP4 are integers. If 16 (OFFSET) is added, they are not negative. */
#define MX_UNIT 0.5f

/* The highest bit of a mantissa. Alone it is 2^-127, with the exponent 255 it is NaN. */
#define MX_QUIET 0x400000

/* Returns 2^(e - 127), NaN for e = 255. */
static inline float mx_power(int e)
{
    const uint32_t bits = (uint32_t)e << 23 | (e == 0 || e == 255 ? MX_QUIET : 0);
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* Returns VL inputs, which are stored in VL / 2 bytes. */
V_INLINE vf mx_inputs(const uint8_t *from)
{
#if VL > 4
    uint8_t bytes[VL / 2];
    memcpy(bytes, from, sizeof bytes);
#if VL == 16
    const __m512i each = _mm512_cvtepu8_epi64(_mm_loadl_epi64((const void *)bytes));
    /* A byte is the low word of a pair; its high half is moved to the high word. */
    const vi index = (vi)_mm512_or_si512(each, _mm512_slli_epi64(each, 28));
    return _mm512_permutexvar_ps(
        (__m512i)index,
        _mm512_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6));
#else
    int32_t four;
    memcpy(&four, bytes, sizeof four);
    const __m256i each = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four));
    const vi index = (vi)_mm256_or_si256(each, _mm256_slli_epi64(each, 28));
    const vf size = _mm256_permutevar8x32_ps(_mm256_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6),
                                             (__m256i)(index & 7));
    return (vf)((vi)size | (index & 8) << 28);
#endif
#else
    static const float values[] = {0,    .5f,  1,  1.5f,  2,  3,  4,  6,
                                   -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};
    vf w = {0};
    for (int i = 0; i < VL; i++)
        w[i] = values[from[i / 2] >> 4 * (i % 2) & 15];
    return w;
#endif
}

#if VL > 4
/* Returns twice the value plus OFFSET for each byte, whose content is 0 .. 15. */
V_INLINE vi mx_values(vi index)
{
    const __m128i table =
        _mm_setr_epi8(16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4);
#if VL == 16
    return (vi)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), (__m512i)index);
#else
    return (vi)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (__m256i)index);
#endif
}

#endif

#if VL == 16
/* Loads a vector of bytes, of which `bytes` exist, a multiple of 16; all other bytes are 0. */
V_INLINE vi mx_bytes(const uint8_t *p, int64_t bytes)
{
    uint8_t padded[4 * VL] = {0};
    if (bytes < 4 * VL) {
        memcpy(padded, p, (size_t)bytes);
        p = padded;
    }
    return v_loadi((const void *)p);
}

/* Returns 2^(e - 127), or NaN for e = 255, of VL neighbouring blocks, of which n exist; other
 * lanes get any finite number. */
V_INLINE vf mx_scales(const uint8_t *e, int64_t n)
{
    uint8_t padded[VL] = {0};
    if (n < VL) {
        memcpy(padded, e, (size_t)n);
        e = padded;
    }
    const vu power = (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)e)) << 23;
    /* One comparison finds both 0 and 255: with 1 added they are 1 and below 0. */
    const vi special = (vi)(power + 0x800000) < 0x1000000;
    return (vf)((vi)power | (special & MX_QUIET));
}

/* Returns the scales of the blocks of vector v, selected from VL scales; each scale is in the
 * four lanes of its block. */
V_INLINE vf mx_scales_of(vf scales, int64_t v)
{
    const vi lane = V_LANES / 4 + (int32_t)(v * (VL / 4));
    return _mm512_permutexvar_ps((__m512i)lane, scales);
}
#endif

#endif
