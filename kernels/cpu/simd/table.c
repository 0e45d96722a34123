/* table.c: puts the kernels of this folder into a table. */
#include "kernels/cpu/simd/simd.h"

void MF_SIMD(fill)(mf_kernels *table)
{
#define MF_FAST(fn) table->fn = MF_SIMD(fn);
#include "kernels/cpu/simd/simd.def"
#undef MF_FAST
}
