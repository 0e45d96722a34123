/* packed_units.h: dot products of a few rows with weights of GPTQ4, with VNNI also of GPTQ8 and
 * AWQ4, read directly from memory. It is included once for each way to multiply bytes, like
 * packed_dots.h.
 *
 * Rows are spans (digits.h). Weights are read once, nearly in the order of memory. Sums over a
 * unit of inputs are exact integers, which are then scaled and added in f32, unit by unit. So
 * bits depend neither on the tiling nor on other rows. */
#ifndef MF_SIMD_PACKED_UNITS_H
#define MF_SIMD_PACKED_UNITS_H

#include "kernels/cpu/simd/stored/codes.h"
#include "kernels/cpu/simd/stored/packed_dots.h"
#if DOTS_VNNI
#include "kernels/cpu/simd/stored/byte_dots.h"
#endif

#define UNIT_OUTPUTS 1024 /* number of outputs whose sums stay in the first cache */
/* The same for a row times GPTQ8, because whole word rows of 2048 outputs are read 1.2 times as
 * fast as halves of them. */
#define UNIT_MOST  2048
#define UNIT_AHEAD 8192 /* minimum number of bytes between a load and its prefetch */
/* The number of word rows between them is a multiple of this, or of its half for a row
 * times GPTQ8. */
#define UNIT_ROWS 16

/* Returns the maximum number of outputs at a time for mr rows of x. */
static inline int64_t unit_most(mf_stored_type type, int64_t mr)
{
    return type == MF_STORED_GPTQ8 && mr == 1 ? UNIT_MOST : UNIT_OUTPUTS / mr;
}

/* Scales the sums of VL outputs, n of which exist, beginning with output v. digits: for each
 * row and digit the sum over the unit. */
V_INLINE void unit_scale(mf_stored_type type, int mr, int nd, const packed_unit *u, int64_t v,
                         int64_t n, float digits[4][DIGITS], int32_t *sum)
{
    const vf zero = code_zeros(type, u->p, u->g, u->o + v, n),
             scale = gptq_scales(u->p, u->g, u->o + v, n);
    const int64_t next = (u->g + 1) * u->p->rows + u->o + v;
    prefetch_weights((const uint16_t *)u->p->scales + next);
    prefetch_weights((const uint8_t *)u->p->zeros +
                     (type == MF_STORED_GPTQ8 ? next : next / 2));
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        float *y = u->y + r * u->ldy + v;
        vf all = {0};
        V_UNROLL
        for (int d = nd - 1; d >= 0; d--) {
            const vf exact =
                __builtin_convertvector(v_loadi(packed_sum(sum, mr, nd, v, r, d)), vf) -
                zero * digits[r][d];
            all = d == nd - 1 ? exact : all * 256 + exact;
        }
        const vf s = scale * (u->x + r * u->ldx)->scale;
        v_store_to(y, u->first ? all * s : v_fma(all, s, v_load_to(y, n)), n);
    }
}

V_INLINE void unit_scale_all(mf_stored_type type, int mr, int nd, const packed_unit *u,
                             int32_t *sum)
{
    float digits[4][DIGITS];
    int64_t v = 0;
    V_UNROLL
    for (int r = 0; r < mr; r++) {
        V_UNROLL
        for (int d = 0; d < nd; d++) {
            digits[r][d] = 0;
            for (int64_t i = 0; i < u->inputs; i += 32)
                digits[r][d] += (u->x + r * u->ldx)->digit_sum[d][(u->input + i) / 32];
        }
    }
    for (; v + VL <= u->n; v += VL)
        unit_scale(type, mr, nd, u, v, VL, digits, sum);
    if (v < u->n) unit_scale(type, mr, nd, u, v, u->n - v, digits, sum);
}

/* Multiplies mr = 1, 2 or 4 rows of nd digits. */
V_INLINE void unit_run(mf_stored_type type, int mr, int nd, const packed_unit *u, int32_t *sum)
{
#if DOTS_VNNI
    if (type == MF_STORED_GPTQ8)
        byte_run(mr, nd, u, sum);
    else if (type == MF_STORED_AWQ4)
        awq_run(mr, nd, u, sum);
    else
#endif
        gptq_run(mr, nd, u, sum);
    unit_scale_all(type, mr, nd, u, sum);
}

/* Computes at most unit_most(type, mr) outputs. */
V_INLINE void unit_outputs(mf_stored_type type, int nd, const mf_stored_part *p, int64_t in,
                           int64_t o0, int64_t n, int mr, const span *x, float *y, int64_t ldy)
{
    int32_t sum[DIGITS * UNIT_MOST] __attribute__((aligned(64)));
    const bool awq = type == MF_STORED_AWQ4;
    const int64_t unit = p->group_size < SPAN ? p->group_size : SPAN,
                  each = awq                       ? 1
                         : type == MF_STORED_GPTQ8 ? 4
                                                   : 8, /* inputs of a word row */
        words = awq ? 8 : 1,                            /* outputs of a word */
        row = n / words * 4, some = (UNIT_AHEAD + row - 1) / row,
                  rows = type == MF_STORED_GPTQ8 && mr == 1 ? UNIT_ROWS / 2 : UNIT_ROWS,
                  ahead = (some + rows - 1) / rows * rows;
    for (int64_t i = 0; i < in; i += unit) {
        const int64_t g = i / p->group_size, end = i + unit < in ? i + unit : in,
                      ldq = p->rows / words;
        const packed_unit u = {.q = (const uint32_t *)p->data + i / each * ldq + o0 / words,
                               .ldq = ldq,
                               .inputs = end - i,
                               .n = n,
                               .ahead = ahead,
                               .near = row < UNIT_AHEAD ? UNIT_AHEAD / row : 1,
                               .x = x + i / SPAN,
                               .ldx = spans_of(in),
                               .input = i % SPAN,
                               .p = p,
                               .g = g,
                               .o = o0,
                               .y = y,
                               .ldy = ldy,
                               .first = i == 0};
        if (mr == 1) unit_run(type, 1, nd, &u, sum);
        if (mr == 2) unit_run(type, 2, nd, &u, sum);
#if VL == 16
        if (mr == 4) unit_run(type, 4, nd, &u, sum);
#endif
    }
}

V_INLINE void units_few(mf_stored_type type, int nd, const mf_stored_part *p, int64_t in,
                        int64_t o0, int64_t o1, int64_t rows, const span *x, float *y,
                        int64_t ldy)
{
    for (int64_t r = 0, mr; r < rows; r += mr) {
        mr = VL == 16 && rows - r >= 4 ? 4 : rows - r >= 2 ? 2 : 1;
        const int64_t most = unit_most(type, mr);
        for (int64_t o = o0; o < o1; o += most)
            unit_outputs(type, nd, p, in, o, o1 - o < most ? o1 - o : most, (int)mr,
                         x + r * spans_of(in), y + r * ldy + o - o0, ldy);
    }
}

static void gptq_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1, int64_t rows,
                     int nd, const span *x, float *y, int64_t ldy)
{
    if (nd == 2)
        units_few(MF_STORED_GPTQ4, 2, p, in, o0, o1, rows, x, y, ldy);
    else
        units_few(MF_STORED_GPTQ4, 3, p, in, o0, o1, rows, x, y, ldy);
}

#endif
