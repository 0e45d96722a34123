/* product_bf16.c: blocks of products of bf16, compiled for processors that multiply pairs of
 * them and add the products in f32. */
#define HALF 1
#include "kernels/cpu/simd/product_core.h"

void MF_SIMD(product_block_bf16)(const product_block *b)
{
    product_block_run(b);
}
