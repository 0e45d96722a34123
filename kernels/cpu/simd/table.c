/* table.c: lists the kernels of this folder (SIMD in kernels.def) in a table. Like nearly all
 * files of the folder, it is compiled once per instruction set. */
#include "kernels/cpu/simd/simd.h"

void MF_SIMD(fill)(mf_kernels *table)
{
    table->can_pack = MF_SIMD(can_pack);
    table->sumsq_tiles = MF_SIMD(sumsq_tiles);
#define MF_FILL_REF(fn)
#define MF_FILL_CPU(fn)
#define MF_FILL_SIMD(fn)        table->fn = MF_SIMD(fn);
#define MF_KERNEL(fn, set, ...) MF_FILL_##set(fn)
#include "kernels/kernels.def"
}
