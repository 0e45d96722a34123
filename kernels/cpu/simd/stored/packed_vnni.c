/* packed_vnni.c: dot products of few rows with weights of four bits, for processors that
 * multiply and add four bytes in one instruction. */
#define DOTS_VNNI 1
#include "kernels/cpu/simd/stored/packed_few.h"
#include "kernels/cpu/simd/stored/mx_dots.h"
#include "kernels/cpu/simd/stored/packed_dots.h"

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
