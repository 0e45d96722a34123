/* table.c: the reference set, complete by construction. */
#include "kernels/ref/ref.h"

const mf_kernels mf_kernels_ref = {
    .name = "ref",
#define MF_KERNEL(ret, fn, args) .fn = mf_ref_##fn,
#include "kernels/kernels.def"
#undef MF_KERNEL
};
