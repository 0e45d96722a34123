/* packed_few.h: declares the functions of packed_units.h, mx_dots.h, int4_dots.h and f8_dots.h
 * for processors with more instructions for bytes than AVX-512 has. They are defined only with
 * MF_HAVE_AVX512BF16. */
#ifndef MF_SIMD_PACKED_FEW_H
#define MF_SIMD_PACKED_FEW_H

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/stored/digits.h"
#include "kernels/cpu/simd/stored/stored.h"

/* Like stored_few of stored.h, with rows as spans [rows, spans_of(in)] of nd digits. nd is 3
 * for GPTQ8. */
typedef void packed_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                        int64_t rows, int nd, const span *x, float *y, int64_t ldy);

/* These need AVX-512 VNNI. Other types than MXFP4: only for parts for which stored_has_spans is
 * true. AWQ4: in is divisible by 8. */
packed_few MF_SIMD(gptq_few_vnni), MF_SIMD(mx_few_vnni), MF_SIMD(gptq8_few_vnni),
    MF_SIMD(awq_few_vnni), MF_SIMD(int4_few_vnni);

/* This needs AVX-512 VBMI and bf16. p: 8-bit numbers, with one group of inputs or groups whose
 * size is a multiple of 64. */
stored_few MF_SIMD(f8_few_vbmi);

#endif
