/* store.h: writes sums to c. It scales them, adds the bias, and rounds them if c is bf16. It is
 * a part of the engines and of amx.c. */
#ifndef MF_SIMD_GEMM_STORE_H
#define MF_SIMD_GEMM_STORE_H

#include "kernels/cpu/simd/gemm/pack.h"

V_INLINE void *place(const gemm_tile *b, int64_t i, int64_t j)
{
    return (char *)b->c +
           ((i - b->i0) * b->ldc + j - b->j0) * (b->type_c == MF_CAST_F32 ? 4 : 2);
}

/* Writes n elements, at most VL, of row i from column j on. first: this is the first block of
 * the inner index; later blocks add to c. */
V_INLINE void put(const gemm_tile *b, int64_t i, int64_t j, int64_t n, vf r, bool first)
{
    n = n < VL ? n : VL;
    r *= b->alpha;
    if (first && b->bias != NULL) r += n < VL ? v_load_n(b->bias + j, n) : v_load(b->bias + j);
    if (b->type_c == MF_CAST_F32) {
        float *to = place(b, i, j);
        if (!first || b->beta != 0) r += n < VL ? v_load_n(to, n) : v_load(to);
        if (n < VL)
            v_store_n(to, r, n);
        else
            v_store(to, r);
        return;
    }
    uint16_t *to = place(b, i, j);
    if (!first || b->beta != 0) r += numbers(MF_CAST_BF16, to, n);
    vi bits = (vi)round_to_bf16(r);
#if VL == 16
    const __mmask16 mask = n < VL ? (__mmask16)((1u << n) - 1) : 0xffff;
    _mm512_mask_cvtepi32_storeu_epi16(to, mask, _mm512_srli_epi32((__m512i)bits, 16));
#else
    uint16_t half[VL];
    for (int l = 0; l < VL; l++)
        half[l] = (uint16_t)((uint32_t)bits[l] >> 16);
    memcpy(to, half, (size_t)n * sizeof *half);
#endif
}

/* Writes the first mr rows of buffer [rows][LANES] to rows i .. i + mr - 1 and columns
 * j .. j + width - 1 of c. If crossed, rows of the buffer are columns i .. of c, and the buffer
 * has VL rows. */
static inline void put_tile(const gemm_tile *b, bool crossed, int64_t i, int mr, int64_t j,
                            int64_t width, const float *buffer, bool first)
{
    for (int h = 0; h * VL < width; h++) {
        int64_t left = width - h * VL < VL ? width - h * VL : VL;
        if (!crossed) {
            for (int r = 0; r < mr; r++)
                put(b, i + r, j + h * VL, left, v_load(buffer + r * LANES + h * VL), first);
            continue;
        }
        vf v[VL];
        V_UNROLL
        for (int r = 0; r < VL; r++)
            v[r] = r < mr ? v_load(buffer + r * LANES + h * VL) : (vf){0};
        transpose(v);
        for (int r = 0; r < left; r++)
            put(b, j + h * VL + r, i, mr, v[r], first);
    }
}

#endif
