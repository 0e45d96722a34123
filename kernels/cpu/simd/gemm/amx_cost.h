/* amx_cost.h: the number of cycles of a gemm with matrix registers (amx.c), measured on a fifth
 * generation Xeon. gemm.c uses it to cut gemms, and amx.c uses it to choose the side of
 * an operand. */
#ifndef MF_SIMD_GEMM_AMX_COST_H
#define MF_SIMD_GEMM_AMX_COST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* number of words of the panels that stay in the second cache: 1.25 MiB */
#define AMX_STAY 327680
#define AMX_DEEP 1024 /* maximum number of words of the inner index at a time */

/* How a gemm is computed. crossed: b is on the rows side, and the result is transposed. As many
 * panels of one side as fit stay in the cache. The panels of the other side are read once for
 * each set of panels that stay. rows_stay: the panels of rows stay. */
typedef struct amx_way {
    bool crossed, rows_stay;
} amx_way;

/* Returns the number of rows or lanes whose panels stay in the cache, for `words` pairs of the
 * inner index; a multiple of 32. */
static inline int64_t amx_stay(int64_t words)
{
    const int64_t fit = words > 0 ? AMX_STAY / words / 32 * 32 : 32;
    return fit > 1024 ? 1024 : fit > 32 ? fit : 32;
}

/* Returns the cycles to pack an element of a row; the next function does so for a lane. along:
 * the element is stored along the inner index. */
static inline double amx_row_cycles(bool along)
{
    return along ? 0.05 : 0.12;
}
static inline double amx_lane_cycles(bool along)
{
    return along ? 0.12 : 0.08;
}

/* Returns the cycles for m rows, n lanes and k inner indices. A cycle has 400 multiply-adds.
 * Panels that stay are packed once, all other panels once for each set of panels that stay. */
static inline double amx_side_cycles(bool rows_stay, bool rows_along, bool lanes_along,
                                     double m, double n, double k)
{
    const double words = k / 2 < AMX_DEEP ? k / 2 : AMX_DEEP,
                 stay = (double)amx_stay((int64_t)words), whole_m = ceil(m / 16) * 16,
                 whole_n = ceil(n / 16) * 16;
    const double rows = m * amx_row_cycles(rows_along),
                 lanes = n * amx_lane_cycles(lanes_along);
    return k * (whole_m * whole_n / 400 + rows * (rows_stay ? 1 : ceil(n / stay)) +
                lanes * (rows_stay ? ceil(m / stay) : 1));
}

/* Returns the cycles for m rows of a and n columns of b, and the fastest way to
 * compute them. */
static inline double amx_cycles(bool a_along, bool b_along, double m, double n, double k,
                                amx_way *ret)
{
    double best = 0;
    for (int way = 0; way < 4; way++) {
        const amx_way w = {way / 2, way % 2};
        double cycles =
            w.crossed ? amx_side_cycles(w.rows_stay, b_along, a_along, n, m, k) + 0.2 * m * n
                      : amx_side_cycles(w.rows_stay, a_along, b_along, m, n, k);
        /* In this case consecutive panels of c are below each other, so each of them is on
         * other pages than the panel before it. */
        if (w.rows_stay != w.crossed) cycles += 0.1 * m * n;
        if (way > 0 && cycles >= best) continue;
        best = cycles;
        *ret = w;
    }
    return best;
}

#endif
