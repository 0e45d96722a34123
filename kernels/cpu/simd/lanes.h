/* lanes.h: processes short rows VL at a time, one per lane, so that loops along a row need no
 * work across lanes. The rows are stored transposed in a buffer, [n, VL]. */
#ifndef MF_SIMD_LANES_H
#define MF_SIMD_LANES_H

#include "kernels/cpu/simd/gemm/small.h"
#include "kernels/cpu/simd/vec.h"

#define LANES_MOST  32 /* maximum length of rows for which this is faster */
#define LANES_LEAST 4  /* if there are fewer rows, softmax and topk process them one by one */

#if VL == 16
/* Transposes rows of eight. Each vector has rows i and i + 8, so three exchanges move row r to
 * lane r. */
V_INLINE void lanes_turn_8(vf x[8])
{
    V_UNROLL
    for (int w = 1; w < 8; w *= 2) {
        V_UNROLL
        for (int i = 0; i < 8; i++)
            if ((i & w) == 0) block_swap(w, &x[i], &x[i + w]);
    }
}

V_INLINE void lanes_in_8(const float *from, float *to)
{
    vf x[8];
    V_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(from + i * 8)),
                                  _mm256_loadu_ps(from + (i + 8) * 8), 1);
    lanes_turn_8(x);
    V_UNROLL
    for (int i = 0; i < 8; i++)
        v_store(to + i * VL, x[i]);
}

V_INLINE void lanes_out_8(const float *from, float *to)
{
    vf x[8];
    V_UNROLL
    for (int i = 0; i < 8; i++)
        x[i] = v_load(from + i * VL);
    lanes_turn_8(x);
    V_UNROLL
    for (int i = 0; i < 8; i++) {
        _mm256_storeu_ps(to + i * 8, _mm512_castps512_ps256(x[i]));
        _mm256_storeu_ps(to + (i + 8) * 8, _mm512_extractf32x8_ps(x[i], 1));
    }
}
#endif

/* Transposes rows [rows,n], rows <= VL, into to [n, VL]. Lanes after the last row repeat the
 * last row. */
V_INLINE void lanes_in(int64_t rows, int64_t n, const float *from, float *to)
{
#if VL == 16
    if (rows == VL && n == 8) {
        lanes_in_8(from, to);
        return;
    }
    if (rows == VL && n % VL == 0) {
        block_turn(VL, n, 1, from, n, to, VL);
        return;
    }
#endif
    if (rows == VL) {
        for (int64_t j = 0; j < n; j++) {
            V_UNROLL
            for (int64_t r = 0; r < VL; r++)
                to[j * VL + r] = from[r * n + j];
        }
        return;
    }
    for (int64_t r = 0; r < VL; r++)
        for (int64_t j = 0; j < n; j++)
            to[j * VL + r] = from[(r < rows ? r : rows - 1) * n + j];
}

V_INLINE void lanes_out(int64_t rows, int64_t n, const float *from, float *to)
{
#if VL == 16
    if (rows == VL && n == 8) {
        lanes_out_8(from, to);
        return;
    }
    if (rows == VL && n % VL == 0) {
        block_turn(n, VL, 1, from, VL, to, n);
        return;
    }
#endif
    if (rows == VL) {
        for (int64_t j = 0; j < n; j++) {
            V_UNROLL
            for (int64_t r = 0; r < VL; r++)
                to[r * n + j] = from[j * VL + r];
        }
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++)
            to[r * n + j] = from[j * VL + r];
}

#endif
