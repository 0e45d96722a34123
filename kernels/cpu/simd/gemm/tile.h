/* tile.h: one tile of a gemm in the calling thread: the interface between gemm.c, which cuts
 * gemms into tiles, tile.c, which chooses its method, and the engine (engine.h), which is
 * compiled for f32 and for bf16.
 *
 * Every element of c is one chain of multiply-adds over the inner index, in blocks that depend
 * on its length alone. So its bits depend neither on the tiling nor on the rows and columns
 * beside it. Exceptions are gemms with a very short side, whose method depends on the shape of
 * the whole gemm, and those that a library computes. */
#ifndef MF_SIMD_GEMM_TILE_H
#define MF_SIMD_GEMM_TILE_H

#include "kernels/cpu/simd/simd.h"

#define BLOCK_LANES 256 /* lanes that the engine takes at once if it reads rows in place */

/* An operand. Element [i, p]: i is its index in c, p the inner index. */
typedef struct gemm_side {
    const void *at;
    mf_cast_type type;
    int64_t ld;
    bool along;           /* true: stored row i, column p; false: stored row p, column i */
    const int32_t *index; /* of stored rows; NULL: none */
    int64_t end;          /* readable columns of a stored row */
    bool packed;          /* only b: packed by pack_weights; see packed.h */
} gemm_side;

/* Elements [i,j] of c for i0 <= i < i1, j0 <= j < j1, over the inner indices k0 <= p < k1. c
 * points to element [i0,j0], bias to that of j = 0. */
typedef struct gemm_tile {
    gemm_side a, b;
    int64_t i0, i1, j0, j1, k0, k1;
    void *c;
    mf_cast_type type_c;
    int64_t ldc;
    float alpha, beta;
    const float *bias;
    /* size of the whole gemm, with MF_BY_ROWS of the group. It decides how tiles are computed,
     * so that bits do not depend on the tiling */
    int64_t rows, cols;
    bool rounded; /* f32 operands are first rounded to bf16 */
    /* the inner indices are rows of a group (gradients of its weights): the engine computes the
     * sums, also where these rows are neighbours in memory, as on ranks that receive them;
     * gathered rows are always computed by the engine, so both have the same bits */
    bool by_inner;
    /* the tile that this thread computes next, for prefetch; NULL: unknown */
    const struct gemm_tile *next;
} gemm_tile;

/* Computes a tile by the method that is fastest for its shape and this processor. */
void MF_SIMD(gemm_tile)(const gemm_tile *b);

void MF_SIMD(gemm_tile_f32)(const gemm_tile *b);
/* Number of lanes that the f32 engine takes at once, if rows are copied and the inner index has
 * length k. */
int64_t MF_SIMD(gemm_lanes)(int64_t k);
/* Computes a tile by the engine that multiplies pairs of bf16, for operands that are bf16 or
 * rounded to bf16. It is defined only with MF_HAVE_AVX512BF16, and may be called only on a
 * processor with these instructions. */
void MF_SIMD(gemm_tile_bf16)(const gemm_tile *b);

/* Computes a tile with matrix registers (amx.c). Returns false and does nothing in cases that
 * it does not support. It is defined only with MF_HAVE_AMX. */
bool MF_SIMD(gemm_tile_amx)(const gemm_tile *b);
/* Whether a small gemm by AMX has the result that vectors give, within 1e-3. */
bool MF_SIMD(gemm_amx_works)(void);
/* Computes tiles of a bf16 gemm with more than a few rows that no library computes, also of
 * packed weights; NULL: not used. Tests set an emulation here. */
extern bool (*MF_SIMD(gemm_amx))(const gemm_tile *b);
/* Sets gemm_amx, and stored_amx of stored/stored.h, if gemm_amx_works() is true. Call this
 * once, after mf_amx_permitted has returned true, on a processor with AVX-512 BF16, too. */
void MF_SIMD(use_amx)(void);

#endif
