/* lines.h: sums of a few rows of x times one stored row of F32, BF16 or F16, with AVX-512.
 *
 * Files align tensors to 8 bytes, and a load of 64 bytes that crosses two cache lines costs as
 * much as two loads. So whole lines are loaded, each once, and a permutation makes 64 bytes of
 * the row from two neighbouring lines. With one stream per thread and a prefetch far ahead,
 * this reads memory as fast as a loop that does nothing else. The order of sums does not depend
 * on the alignment, so bits do not depend on it either. */
#ifndef MF_SIMD_LINES_H
#define MF_SIMD_LINES_H

#include "kernels/cpu/simd/stored/ahead.h"

#define LINE_BYTES 64
#define LINE_AHEAD 8192 /* bytes between a load and its prefetch */
#define LANE_NUMBERS                                                                           \
    _mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14,   \
                     13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

/* Returns the number of elements in a line. */
V_INLINE int64_t line_numbers(mf_stored_type type)
{
    return LINE_BYTES / (type == MF_STORED_F32 ? 4 : 2);
}

/* Splits the numbers of a line: for BF16 into numbers of even and of odd index, which needs the
 * fewest operations; for F16 into the first and the last half. F32 is written to to[0] only. */
V_INLINE void line_split(mf_stored_type type, __m512i line, vf to[2])
{
    if (type == MF_STORED_BF16) {
        to[0] = (vf)_mm512_slli_epi32(line, 16);
        to[1] = (vf)_mm512_and_si512(line, _mm512_set1_epi32((int)0xffff0000));
    } else if (type == MF_STORED_F16) {
        to[0] = _mm512_cvtph_ps(_mm512_castsi512_si256(line));
        to[1] = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(line, 1));
    } else {
        to[0] = (vf)line;
    }
}

/* Copies the numbers of whole lines of BF16 from x in the order of line_split. */
static void line_order(int64_t n, const float *x, float *to)
{
    for (int64_t i = 0; i < n; i += 2 * VL) {
        const vf a = v_load(x + i), b = v_load(x + i + VL);
        v_store(to + i,
                V_SHUFFLE(vi, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30));
        v_store(to + i + VL,
                V_SHUFFLE(vi, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
    }
}

V_INLINE void line_add(mf_stored_type type, int rows, __m512i line, const float *x, int64_t ldx,
                       vf sum[][2])
{
    vf v[2];
    line_split(type, line, v);
    V_UNROLL
    for (int r = 0; r < rows; r++) {
        sum[r][0] = v_fma(v_load(x + r * ldx), v[0], sum[r][0]);
        if (type != MF_STORED_F32) sum[r][1] = v_fma(v_load(x + r * ldx + VL), v[1], sum[r][1]);
    }
}

/* Adds the sums over `lines` lines from w on, which is aligned to 2 bytes. x: in the order of
 * line_split. Lanes with bytes outside of the lines are masked, so these bytes are not read. */
V_INLINE void lines_dot(mf_stored_type type, int rows, int64_t lines, const char *w,
                        int64_t ahead, const float *x, int64_t ldx, vf sum[][2])
{
    const int64_t shift = (int64_t)((uintptr_t)w % LINE_BYTES), each = line_numbers(type);
    const char *from = w - shift;
    const __m512i order = _mm512_add_epi16(_mm512_set1_epi16((short)(shift / 2)), LANE_NUMBERS);
    const __mmask32 begin = 0xffffffff << shift / 2, end = ~begin;
    __m512i before, next;
    if (lines <= 0) return;
    before = _mm512_maskz_loadu_epi16(begin, from);
    for (; lines > 1; lines--) {
        from += LINE_BYTES;
        next = _mm512_load_si512((const void *)from);
        prefetch_weights(from + ahead);
        line_add(type, rows, _mm512_permutex2var_epi16(before, order, next), x, ldx, sum);
        before = next;
        x += each;
    }
    next = _mm512_maskz_loadu_epi16(end, from + LINE_BYTES);
    prefetch_weights(from + LINE_BYTES + ahead);
    line_add(type, rows, _mm512_permutex2var_epi16(before, order, next), x, ldx, sum);
}

#endif
