/* ref.h: the reference kernels. Each kernel of kernels.def is mf_ref_NAME here, so a kernel
 * without a reference does not link.
 *
 * All other kernels are compared with these: plain loops in the order of the formula, sums in
 * double, libm for functions, all in the calling thread. They must stay simple, even if that
 * makes them slow. */
#ifndef MF_REF_H
#define MF_REF_H

#include "kernels/kernel.h"

#include <math.h>
#include <string.h>

/* Returns element i of an array of f32 or bf16. */
static inline float ref_load(int type, const void *from, int64_t i)
{
    return type == MF_CAST_BF16 ? mf_bf16_to_f32(((const mf_bf16 *)from)[i])
                                : ((const float *)from)[i];
}
static inline void ref_store(int type, void *to, int64_t i, float value)
{
    if (type == MF_CAST_BF16)
        ((mf_bf16 *)to)[i] = mf_bf16_from_f32(value);
    else
        ((float *)to)[i] = value;
}

/* Returns weight (j, i) of group e (stored.c). */
double mf_ref_stored_weight(const mf_stored *w, int64_t e, int64_t j, int64_t i);
/* Returns weight (o, i) of a part of four bits (stored_packed.c). */
double mf_ref_stored_packed(const mf_stored_part *p, int64_t in, int64_t o, int64_t i);

/* Forms of gemm that only sets that fuse have (token.c). */
void mf_ref_gemm_normed(const mf_kctx *x, const mf_gemm *g);
void mf_ref_gemm_summed(const mf_gemm *g);

#define MF_KERNEL(fn, ...) void mf_ref_##fn(const mf_kctx *x, const mf_##fn##_args *a);
#include "kernels/kernels.def"

#endif
