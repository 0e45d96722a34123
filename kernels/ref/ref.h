/* ref.h: the reference kernels. Every kernel of kernels.def is mf_ref_NAME here, so that a
 * kernel without a reference does not link.
 *
 * They are the truth that everything else is measured against: plain loops in the order of the
 * formula, sums in double, one tile after the other, libm for functions. Nothing here is to be
 * made faster at the price of being less obvious.
 */
#ifndef MF_REF_H
#define MF_REF_H

#include "kernels/kernel.h"

#include <math.h>
#include <string.h>

static inline float mf_ref_to_f32(mf_bf16 number)
{
    uint32_t bits = (uint32_t)number << 16; /* the upper half of a float */
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline mf_bf16 mf_ref_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (isnan(value)) return (mf_bf16)(bits >> 16 | 0x40); /* quiet, so that it stays one */
    return (mf_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Element i of an array of f32 or bf16. */
static inline float ref_load(int type, const void *from, int64_t i)
{
    return type == MF_CAST_BF16 ? mf_ref_to_f32(((const mf_bf16 *)from)[i])
                                : ((const float *)from)[i];
}
static inline void ref_store(int type, void *to, int64_t i, float value)
{
    if (type == MF_CAST_BF16)
        ((mf_bf16 *)to)[i] = mf_ref_to_bf16(value);
    else
        ((float *)to)[i] = value;
}

#define MF_KERNEL(fn, args) void mf_ref_##fn args;
#include "kernels/kernels.def"
#undef MF_KERNEL

#endif
