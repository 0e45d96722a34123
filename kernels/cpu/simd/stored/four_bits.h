/* four_bits.h: vectors of the numbers that stored weights of four bits are made of. */
#ifndef MF_SIMD_FOUR_BITS_H
#define MF_SIMD_FOUR_BITS_H

#include "kernels/kernel.h"
#include "kernels/cpu/simd/vec.h"

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
    /* the exponent of f16 read as one of f32 is too small by 112, also for subnormal numbers */
    const vf size = (vf)((bits & 0x7fff) << 13) * 0x1p112f;
    const vi special = (bits & 0x7c00) == 0x7c00;
    return (vf)((vi)size | ((bits & 0x8000) << 16) | (special & 0x7f800000));
#endif
}

/* zero + 1 of the outputs o .. o + n - 1, n at most VL; the other lanes have no meaning. zeros:
 * of the group. */
V_INLINE vf gptq_zeros(const uint32_t *zeros, int64_t o, int64_t n)
{
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
    return __builtin_convertvector((vi)(z & 15) + 1, vf);
}

/* Twice the values of MXFP4 are integers; plus 12 (MX_OFFSET) they are not negative. */
#define MX_UNIT 0.5f

/* The highest bit of a mantissa: alone it is 2^-127, with the exponent 255 NaN. */
#define MX_QUIET 0x400000

#if VL > 4
/* Twice the value plus MX_OFFSET of each byte, which is 0 .. 15. */
V_INLINE vi mx_values(vi index)
{
    const __m128i table =
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
#if VL == 16
    return (vi)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), (__m512i)index);
#else
    return (vi)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (__m256i)index);
#endif
}

#endif

#if VL == 16
/* Loads a vector of bytes, of which `bytes` exist, a multiple of 16; the others are 0. */
V_INLINE vi mx_bytes(const uint8_t *p, int64_t bytes)
{
    uint8_t padded[4 * VL] = {0};
    if (bytes < 4 * VL) {
        memcpy(padded, p, (size_t)bytes);
        p = padded;
    }
    return v_loadi((const void *)p);
}

/* 2^(e - 127), or NaN for e = 255, of VL neighbouring blocks, of which n exist; a number for
 * the others. */
V_INLINE vf mx_scales(const uint8_t *e, int64_t n)
{
    uint8_t padded[VL] = {0};
    if (n < VL) {
        memcpy(padded, e, (size_t)n);
        e = padded;
    }
    const vu power = (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)e)) << 23;
    /* one comparison finds 0 and 255: with 1 added they are 1 and below 0 */
    const vi special = (vi)(power + 0x800000) < 0x1000000;
    return (vf)((vi)power | (special & MX_QUIET));
}

/* Of VL scales those of the blocks of vector v, each in the four lanes of its block. */
V_INLINE vf mx_scales_of(vf scales, int64_t v)
{
    const vi lane = V_LANES / 4 + (int32_t)(v * (VL / 4));
    return _mm512_permutexvar_ps((__m512i)lane, scales);
}
#endif

#endif
