/* product_f32.c: blocks of products in f32; operands of bf16 are widened as they are copied. */
#define HALF 0
#include "kernels/cpu/simd/product_core.h"

void MF_SIMD(product_block_f32)(const product_block *b)
{
    product_block_run(b);
}

int64_t MF_SIMD(product_lanes)(int64_t k)
{
    return lanes_of(even_part(k > 0 ? k : 1, KC, 1));
}
