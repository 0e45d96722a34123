/* lanes.h: short rows, VL of them at a time, one a lane: then what runs along a row needs no work
 * across lanes. Numbers of such rows lie turned, [n, VL], in a buffer.
 */
#ifndef MF_SIMD_LANES_H
#define MF_SIMD_LANES_H

#include "kernels/cpu/simd/vec.h"

#define LANES_MOST 32 /* longest rows for which this pays */

/* Of rows [rows,n], rows <= VL; the lanes past them hold the last row. */
V_INLINE void lanes_in(int64_t rows, int64_t n, const float *from, float *to)
{
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
