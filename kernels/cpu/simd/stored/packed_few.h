/* packed_few.h: declares the functions of packed_dots.h and mx_dots.h for each way to
 * multiply bytes. */
#ifndef MF_SIMD_PACKED_FEW_H
#define MF_SIMD_PACKED_FEW_H

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/stored/digits.h"

/* Like stored_few of stored.h, with rows as spans [rows, spans_of(in)] of nd digits. */
typedef void packed_few(const mf_stored_part *p, int64_t in, int64_t o0, int64_t o1,
                        int64_t rows, int nd, const span *x, float *y, int64_t ldy);

/* These may be called only on processors with AVX-512 VNNI, where MF_HAVE_AVX512BF16 is
 * defined. GPTQ4: only for parts for which stored_gptq4_has_spans is true. */
packed_few MF_SIMD(gptq_few_vnni), MF_SIMD(mx_few_vnni);

#endif
