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

static inline float mf_ref_widen(mf_bf16 half)
{
    uint32_t bits = (uint32_t)half << 16; /* the upper half of a float */
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline mf_bf16 mf_ref_round(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (isnan(value)) return (mf_bf16)(bits >> 16 | 0x40); /* quiet, so that it stays one */
    return (mf_bf16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define MF_KERNEL(ret, fn, args) ret mf_ref_##fn args;
#include "kernels/kernels.def"
#undef MF_KERNEL

#endif
