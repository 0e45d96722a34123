/* packed_vnni.c: dot products of few rows with weights of few bits, for processors that
 * multiply and add four bytes in one instruction, or look up bytes in tables. */
#define DOTS_VNNI 1
#include "kernels/cpu/simd/stored/packed_few.h"
#include "kernels/cpu/simd/stored/f8_dots.h"
#include "kernels/cpu/simd/stored/int4_dots.h"
#include "kernels/cpu/simd/stored/packed_units.h"

void MF_SIMD(gptq_few_vnni)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                            int64_t rows, int nd, const span *x, float *y, int64_t ldy)
{
    gptq_few(p, in, o0, o1, rows, nd, x, y, ldy);
}

void MF_SIMD(mx_few_vnni)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                          int64_t rows, int nd, const span *x, float *y, int64_t ldy)
{
    mx_few(p, in, o0, o1, rows, nd, x, y, ldy);
}

void MF_SIMD(gptq8_few_vnni)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                             int64_t rows, int nd, const span *x, float *y, int64_t ldy)
{
    (void)nd;
    units_few(MF_STORED_GPTQ8, 3, p, in, o0, o1, rows, x, y, ldy);
}

void MF_SIMD(awq_few_vnni)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                           int64_t rows, int nd, const span *x, float *y, int64_t ldy)
{
    if (nd == 2)
        units_few(MF_STORED_AWQ4, 2, p, in, o0, o1, rows, x, y, ldy);
    else
        units_few(MF_STORED_AWQ4, 3, p, in, o0, o1, rows, x, y, ldy);
}

void MF_SIMD(int4_few_vnni)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                            int64_t rows, int nd, const span *x, float *y, int64_t ldy)
{
    int4_few(p, in, o0, o1, rows, nd, x, y, ldy);
}

void MF_SIMD(f8_few_vbmi)(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                          int64_t rows, bool bf16, const float *x, int64_t ldx, float *y,
                          int64_t ldy)
{
    if (p->type == MF_STORED_F8_E4M3)
        (bf16 ? f8_e4m3_bf16 : f8_e4m3_f32)(p, in, o0, o1, rows, x, ldx, y, ldy);
    else
        (bf16 ? f8_e5m2_bf16 : f8_e5m2_f32)(p, in, o0, o1, rows, x, ldx, y, ldy);
}
