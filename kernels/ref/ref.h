/* ref.h: the reference kernels. Every kernel of kernels.def is mf_ref_NAME here, so that a kernel
 * without a reference does not link.
 *
 * They are the truth that everything else is measured against: plain loops in the order of the
 * formula, sums in double, one tile after the other, libm for functions. Nothing here is to be
 * made faster at the price of being less obvious.
 */
#ifndef MF_REF_H
#define MF_REF_H

#include "kernels/kernel.h"

#define MF_KERNEL(ret, fn, args) ret mf_ref_##fn args;
#include "kernels/kernels.def"
#undef MF_KERNEL

#endif
