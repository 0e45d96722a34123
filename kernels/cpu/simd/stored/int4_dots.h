/* int4_dots.h: dot products of a few rows with weights of MF_STORED_INT4, read directly from
 * memory, for processors with AVX-512 VNNI. A byte contains two inputs of one output, and
 * neighbouring bytes contain neighbouring inputs, like in MXFP4.
 *
 * The sum over a group is scale (sum of q x - zero sum of x). The second part is added for 16
 * groups at once, from the sums of x over the groups. */
#ifndef MF_SIMD_INT4_DOTS_H
#define MF_SIMD_INT4_DOTS_H

#include "kernels/cpu/simd/stored/mx_dots.h"

/* Returns the first n lanes as a mask; n is at most VL. */
V_INLINE __mmask16 int4_mask(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}

/* Returns n scales from number `at` on; the other lanes are 0. */
V_INLINE vf int4_scales(const mf_stored_part *p, int64_t at, int64_t n)
{
    if (p->scale_type == MF_SCALE_F32)
        return _mm512_maskz_loadu_ps(int4_mask(n), (const float *)p->scales + at);
    const __m256i h = _mm256_maskz_loadu_epi16(int4_mask(n), (const uint16_t *)p->scales + at);
    return p->scale_type == MF_SCALE_F16 ? (vf)_mm512_cvtph_ps(h)
                                         : (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}

/* Returns the zeros of output o for n groups from g on; the other lanes have any number. */
V_INLINE vf int4_zeros(const mf_stored_part *p, int64_t o, int64_t g, int64_t n)
{
    if (!p->zeros) return v_set(8);
    const uint32_t *from = (const uint32_t *)p->zeros + o / 8 * p->groups + g;
    const vu word = (vu)_mm512_maskz_loadu_epi32(int4_mask(n), from);
    return __builtin_convertvector((vi)(word >> (uint32_t)(4 * (o % 8))) & 15, vf);
}

/* Writes the sums of x over each group. */
static void int4_sums(const mf_stored_part *p, int64_t in, int nd, const span *x, float *to)
{
    for (int64_t g = 0; g < p->groups; g++) {
        const int64_t end = (g + 1) * p->group_size < in ? (g + 1) * p->group_size : in;
        to[g] = 0;
        for (int64_t i = g * p->group_size; i < end; i += 32) {
            const span *s = x + i / SPAN;
            float sum = 0;
            for (int d = nd - 1; d >= 0; d--)
                sum = sum * 256 + s->digit_sum[d][i % SPAN / 32];
            to[g] += sum * s->scale;
        }
    }
}

/* Adds to the sums of mr rows the sums over a span of a row of weights. */
V_INLINE void int4_span(int mr, int nd, const uint8_t *q, int64_t bytes, vf scale,
                        const span *x, int64_t ldx, vf sum[2])
{
    const vi word = bytes < SPAN / 2 ? (vi)_mm512_maskz_loadu_epi8(~(~(__mmask64)0 << bytes),
                                                                   (const void *)q)
                                     : v_loadi((const void *)q);
    prefetch_weights(q + MX_AHEAD);
    span_dots(mr, nd, word & LOW_BYTES, (vi)((vu)word >> 4) & LOW_BYTES, false, scale, x, ldx,
              sum);
}

/* Computes mr rows times output o. sums: what int4_sums wrote, lds apart. Groups have at least
 * SPAN inputs, or `parts` groups are a span. */
V_INLINE void int4_row(int mr, int nd, const mf_stored_part *p, int64_t in, int64_t o,
                       int64_t parts, const float *sums, int64_t lds, const span *x,
                       int64_t ldx, vf sum[2])
{
    const uint8_t *q = (const uint8_t *)p->data + o * (in / 2);
    for (int64_t g = 0, i = 0; g < p->groups; g += VL) {
        const int64_t n = p->groups - g < VL ? p->groups - g : VL,
                      end = (g + n) * p->group_size < in ? (g + n) * p->group_size : in;
        float each[VL] __attribute__((aligned(64)));
        const vf scales = int4_scales(p, o * p->groups + g, n),
                 less = scales * -int4_zeros(p, o, g, n);
        V_UNROLL
        for (int r = 0; r < mr; r++)
            sum[r] =
                v_fma(less, _mm512_maskz_loadu_ps(int4_mask(n), sums + r * lds + g), sum[r]);
        v_store(each, scales);
        if (parts > 1) {
            vi lane = V_LANES / (int32_t)(VL / parts);
            for (; i < end; i += SPAN, q += SPAN / 2, x++, lane += (int32_t)parts)
                int4_span(mr, nd, q, (in - i) / 2, _mm512_permutexvar_ps((__m512i)lane, scales),
                          x, ldx, sum);
            continue;
        }
        for (int64_t k = 0; k < n && p->group_size == SPAN; k++, i += SPAN, q += SPAN / 2, x++)
            int4_span(mr, nd, q, (in - i) / 2, v_set(each[k]), x, ldx, sum);
        for (int64_t k = 0; k < n && p->group_size != SPAN; k++) {
            const int64_t last =
                (g + k + 1) * p->group_size < in ? (g + k + 1) * p->group_size : in;
            for (; i < last; i += SPAN, q += SPAN / 2, x++)
                int4_span(mr, nd, q, (in - i) / 2, v_set(each[k]), x, ldx, sum);
        }
    }
}

V_INLINE void int4_run(int mr, int nd, const mf_stored_part *p, int64_t in, int64_t o0,
                       int64_t o1, const span *x, float *y, int64_t ldy)
{
    const int64_t parts = p->group_size < SPAN && p->groups > 1 ? SPAN / p->group_size : 1;
    float *sums = __builtin_alloca((size_t)(mr * p->groups) * sizeof *sums);
    for (int r = 0; r < mr; r++)
        int4_sums(p, in, nd, x + r * spans_of(in), sums + r * p->groups);
    row_sums all;
    for (int64_t o = o0; o < o1; o++) {
        vf sum[2] = {{0}, {0}};
        int4_row(mr, nd, p, in, o, parts, sums, p->groups, x, spans_of(in), sum);
        put_sums(mr, o - o0, o1 - o0, sum, 1, &all, y, ldy);
    }
}

#define INT4_ROWS(mr, nd)                                                                      \
    static __attribute__((noinline)) void int4_##mr##_##nd(                                    \
        const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, const span *x, float *y,  \
        int64_t ldy)                                                                           \
    {                                                                                          \
        int4_run(mr, nd, p, in, o0, o1, x, y, ldy);                                            \
    }
INT4_ROWS(1, 2)
INT4_ROWS(1, 3)
INT4_ROWS(2, 2)
INT4_ROWS(2, 3)

static void int4_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                     int nd, const span *x, float *y, int64_t ldy)
{
    static span_rows *const of[2][2] = {{int4_1_2, int4_1_3}, {int4_2_2, int4_2_3}};
    span_rows_few(of, p, in, o0, o1, rows, nd, x, y, ldy);
}

#endif
