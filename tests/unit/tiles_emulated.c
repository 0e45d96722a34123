/* tiles_emulated.c: the products of kernels/cpu/simd/product_tiles.c with loops in the place of
 * the instructions, for check_kernels. */
#include "tiles_emulated.h"

#if defined(MF_EMULATE)
#define MF_ISA            avx512
#define MF_TILES_EMULATED 1
#include "kernels/cpu/simd/product_tiles.c"

bool mf_tiles_emulate(bool yes)
{
    static bool (*real)(const product_block *b);
    static bool kept;
    if (!__builtin_cpu_supports("avx512bf16")) return false;
    if (!kept) real = MF_SIMD(product_tiles);
    kept = true;
    MF_SIMD(product_tiles) = yes ? NAME(product_block_tiles) : real;
    return true;
}
bool mf_tiles_emulated_work(void)
{
    return NAME(product_tiles_work)();
}
#else
bool mf_tiles_emulate(bool yes)
{
    (void)yes;
    return false;
}

bool mf_tiles_emulated_work(void)
{
    return false;
}
#endif
