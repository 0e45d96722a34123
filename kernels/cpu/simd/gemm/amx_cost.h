/* amx_cost.h: how many cycles a gemm takes with matrix registers (amx.c), measured on a Xeon of
 * the fifth generation; gemm.c cuts gemms by it, and amx.c chooses the side of an operand. */
#ifndef MF_SIMD_GEMM_AMX_COST_H
#define MF_SIMD_GEMM_AMX_COST_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define AMX_PANELS 262144 /* words of packed columns, which fill half of the second cache */
#define AMX_LANES  512    /* columns that are packed at once, at most */

/* Columns that are packed at once, for `words` pairs of the inner index; a multiple of 32. */
static inline int64_t amx_lanes(int64_t words)
{
    const int64_t fit = words > 0 ? AMX_PANELS / words / 32 * 32 : 32;
    return fit > AMX_LANES ? AMX_LANES : fit > 32 ? fit : 32;
}

/* Cycles for m rows, n lanes and k inner indices: 400 multiply-adds a cycle; each row is packed
 * once for each set of lanes, each lane once. along: stored along the inner index. */
static inline double amx_side_cycles(bool rows_along, bool lanes_along, double m, double n,
                                     double k)
{
    const double sets = ceil(n / (double)amx_lanes((int64_t)(k / 2))),
                 whole_m = ceil(m / 16) * 16, whole_n = ceil(n / 16) * 16;
    return k * (whole_m * whole_n / 400 + m * sets * (rows_along ? 0.05 : 0.12) +
                n * (lanes_along ? 0.12 : 0.08));
}

/* Cycles for m rows of a and n columns of b. *ret_crossed: whether b is better on the rows
 * side, although the result is then transposed. */
static inline double amx_cycles(bool a_along, bool b_along, double m, double n, double k,
                                bool *ret_crossed)
{
    const double straight = amx_side_cycles(a_along, b_along, m, n, k),
                 crossed = amx_side_cycles(b_along, a_along, n, m, k) + 0.2 * m * n;
    *ret_crossed = crossed < straight;
    return *ret_crossed ? crossed : straight;
}

#endif
