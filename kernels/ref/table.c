/* table.c: the reference set. It is complete, because a kernel without a reference does not
 * link. It runs in the calling thread. */
#include "kernels/ref/ref.h"

/* The reference never packs, because its loops read weights in their stored order. */
static bool cannot_pack(int type, int64_t n, int64_t k)
{
    (void)type, (void)n, (void)k;
    return false;
}

void mf_ref_pack_weights(const mf_kctx *x, const mf_pack_weights_args *a)
{
    (void)x, (void)a;
}

const mf_kernels mf_kernels_ref = {
    .name = "ref",
    .can_pack = cannot_pack,
    .fuses = true,
#define MF_KERNEL(fn, ...) .fn = mf_ref_##fn,
#include "kernels/kernels.def"
};
