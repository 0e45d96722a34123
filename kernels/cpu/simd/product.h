/* product.h: one block of a product in the calling thread, between the file that cuts products
 * into blocks (product.c), the choice of who computes it (gemm.c) and the engine
 * (product_core.h), which is compiled for f32 and for bf16.
 *
 * Every number of c is one chain of multiply-adds over the inner index, in blocks of it that
 * depend on its length alone. So its bits depend neither on how c is cut, nor on the rows and
 * columns beside it; only products of very few rows are summed otherwise, and those that the
 * library computes.
 */
#ifndef MF_SIMD_PRODUCT_H
#define MF_SIMD_PRODUCT_H

#include "kernels/cpu/simd/simd.h"

#define BLOCK_LANES 256 /* of a block whose rows are read as they lie, at most */

/* An operand: number [i, p], i along its own side of c, p the inner index. */
typedef struct product_side {
    const void *at;
    mf_cast_type type;
    int64_t ld;
    bool along;           /* stored row i, column p; else stored row p, column i */
    const int32_t *index; /* of stored rows; NULL: none */
    int64_t end;          /* columns of a stored row that may be read */
    bool panels;          /* b only: in panels, see product_panels.h */
} product_side;

/* Numbers [i,j] of c for i0 <= i < i1, j0 <= j < j1, over the inner indices k0 .. k1. c is
 * number [i0,j0], bias that of j = 0. */
typedef struct product_block {
    product_side a, b;
    int64_t i0, i1, j0, j1, k0, k1;
    void *c;
    mf_cast_type type_c;
    int64_t ldc;
    float alpha, beta;
    const float *bias;
    int64_t rows, cols; /* of the product that c is cut from: by them it is chosen who computes
                           it, so that bits do not depend on the cut */
    bool rounded;                     /* operands that are f32 are rounded to bf16 first */
    const struct product_block *next; /* what this thread does then, for what can be fetched in
                                         advance; NULL: nothing is known */
} product_block;

/* By whatever is best for it. */
void MF_SIMD(product_block)(const product_block *b);

void MF_SIMD(product_block_f32)(const product_block *b);
/* Lanes that it takes at once of a product whose rows are copied, of so long an inner index. */
int64_t MF_SIMD(product_lanes)(int64_t k);
/* For operands that are bf16 or become that; only there when MF_HAVE_AVX512BF16 is defined, and
 * only to be called on a machine that has it. */
void MF_SIMD(product_block_bf16)(const product_block *b);

/* By tiles of a matrix in registers (product_tiles.c), for operands that are bf16 or become
 * that; false, and nothing is done, for what they do not do. Only there when MF_HAVE_AMX is
 * defined. */
bool MF_SIMD(product_block_tiles)(const product_block *b);
/* A small product by tiles gives what vectors give. */
bool MF_SIMD(product_tiles_work)(void);
/* What is asked first for products of bf16; NULL: nobody. Tests put an emulation here. */
extern bool (*MF_SIMD(product_tiles))(const product_block *b);
/* Called once, on a machine that has tiles and lets us use them. */
void MF_SIMD(use_tiles)(void);

#endif
