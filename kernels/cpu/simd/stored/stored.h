/* stored.h: the functions for each type of stored weights (kernels/stored.h). stored.c cuts
 * gemms into tiles and calls these functions in the calling thread. Rows are rows of the part.
 * o0 is a multiple of 32; o1 is a multiple of 32 or the part's end. `in` is the number of the
 * part's inputs. */
#ifndef MF_SIMD_STORED_H
#define MF_SIMD_STORED_H

#include "kernels/cpu/simd/simd.h"

#define STORED_FEW 4 /* maximum number of rows of x in a call of stored_few */

/* out[(o - o0) ld + i - i0] = W[o,i] for o0 <= o < o1, i0 <= i < i1. i0 is a multiple of 32; i1
 * is a multiple of 32 or the end. out is 64-byte aligned and ld a multiple of 16. */
typedef void stored_unpack(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                           int64_t i0, int64_t i1, float *out, int64_t ld);
/* y[r ldy + o - o0] = sum over i of x[r ldx + i] W[o,i], for r < rows, rows 1 .. STORED_FEW.
 * bf16: the rows were bf16. Reads each weight once, from memory. */
typedef void stored_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                        int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                        int64_t ldy);
/* Whether stored_few_digits multiplies few rows with the part. */
bool MF_SIMD(stored_takes_digits)(const mf_stored_part *p, int64_t in);
/* Returns the number of digits that rows get for the part (digits.h): three, which keep nearly
 * the bits of f32, or two for rows that were bf16 and weights of four bits, which are rounded
 * as kernels/stored.h describes. */
static inline int stored_digits_of(const mf_stored_part *p, bool bf16)
{
    return bf16 && p->type != MF_STORED_GPTQ8 ? 2 : 3;
}
/* Like stored_few. nd: the number of digits. digits: the rows in the layout of stored_digits,
 * one after the other; x is then NULL. digits NULL: the function computes them. */
void MF_SIMD(stored_few_digits)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                int64_t rows, int nd, const float *x, int64_t ldx,
                                const void *digits, float *y, int64_t ldy);
/* stored_digits_size returns the bytes of a row of x as digits; 0: this instruction set does
 * not use digits. The next function writes one row to `to`, which must be 64-byte aligned. */
int64_t MF_SIMD(stored_digits_size)(int64_t in);
void MF_SIMD(stored_digits)(int64_t in, int nd, const float *x, void *to);

#define STORED_MANY    60 /* maximum number of rows of x in a call of stored_many_gptq4 */
#define STORED_COLUMNS (2 * VL)
/* y[b][r][j] = sum over i of x[r ldx + i] W[o,i], o = o0 + STORED_COLUMNS b + j, for r < rows.
 * So y is [(o1 - o0) / STORED_COLUMNS rounded up, rows, STORED_COLUMNS]. x is bf16, rounded as
 * kernels/stored.h describes. It may be called only for parts for which stored_has_spans
 * is true, with AVX2, or with AVX-512 on processors with its VNNI, where MF_HAVE_AVX512BF16
 * is defined. */
void MF_SIMD(stored_many_gptq4)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                                int64_t rows, const uint16_t *x, int64_t ldx, float *y);
/* Computes with matrix registers (amx.c) the groups of a bf16 gemm for which stored_amx_pays is
 * true, and writes the zeros of rows that belong to no group. It is defined only
 * with MF_HAVE_AMX. */
typedef void stored_by_amx(const mf_kctx *x, const mf_stored_gemm_args *g);
stored_by_amx MF_SIMD(stored_gemm_amx);
/* The function that computes such groups; NULL: AMX is not used. use_amx (tile.h) and tests
 * set it. */
extern stored_by_amx *MF_SIMD(stored_amx);
/* Whether matrix registers are the fastest method for group e (measured). planes.h has no
 * planes for the types behind MXFP4. With few rows,
 * unpacking weights takes longer than multiplying them from memory, or for F32 longer than
 * multiplying in f32. For many rows of BF16, gemm_tile is faster, because it unpacks weights
 * once for more rows. */
static inline bool stored_amx_pays(const mf_stored_gemm_args *g, int64_t e)
{
    static const int64_t most[MF_STORED_TYPES] = {[MF_STORED_F32] = 56,
                                                  [MF_STORED_BF16] = 6,
                                                  [MF_STORED_F16] = 12,
                                                  [MF_STORED_GPTQ4] = 8,
                                                  [MF_STORED_MXFP4] = 5};
    enum { MANY = 256 };
    const int64_t rows = g->offset ? g->offset[e + 1] - g->offset[e] : g->rows;
    bool few = true, lie = true, has_planes = true;
    for (int64_t q = 0; q < g->w->parts; q++) {
        const mf_stored_part *p = &g->w->part[e * g->w->parts + q];
        has_planes = has_planes && p->type <= MF_STORED_MXFP4;
        few = few && rows <= most[p->type];
        lie = lie && p->type == MF_STORED_BF16 && !(p->transposed && p->pairs);
    }
    return rows > 0 && has_planes && (g->back || g->row || !few) && !(lie && rows > MANY);
}
/* Whether groups of inputs consist of whole spans of 128 inputs, or spans consist of whole
 * groups of at least 32 inputs. */
static inline bool stored_has_spans(const mf_stored_part *p)
{
    return !p->group_of && (p->groups == 1 || p->group_size % 128 == 0 ||
                            (p->group_size % 32 == 0 && 128 % p->group_size == 0));
}

stored_unpack MF_SIMD(stored_unpack_dense), MF_SIMD(stored_unpack_gptq4),
    MF_SIMD(stored_unpack_mxfp4), MF_SIMD(stored_unpack_coded), MF_SIMD(stored_unpack_columns);
stored_few MF_SIMD(stored_few_dense), MF_SIMD(stored_few_gptq4), MF_SIMD(stored_few_mxfp4),
    MF_SIMD(stored_few_coded), MF_SIMD(stored_few_columns);

#endif
