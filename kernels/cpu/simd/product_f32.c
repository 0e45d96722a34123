/* product_f32.c: blocks of products in f32; operands of bf16 are widened as they are copied. */
#define HALF 0
#include "kernels/cpu/simd/product_core.h"

void MF_SIMD(product_block_f32)(const product_block *b)
{
    product_block_run(b);
}
