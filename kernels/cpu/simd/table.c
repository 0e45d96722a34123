/* table.c: puts the kernels of this folder into a table. Like nearly all files of the folder,
 * it is compiled once per instruction set. */
#include "kernels/cpu/simd/simd.h"

void MF_SIMD(fill)(mf_kernels *table)
{
    table->can_pack = MF_SIMD(can_pack);
    table->sumsq_tiles = MF_SIMD(sumsq_tiles);
#define MF_FAST(fn) table->fn = MF_SIMD(fn);
#include "kernels/cpu/simd/simd.def"
#undef MF_FAST
}
