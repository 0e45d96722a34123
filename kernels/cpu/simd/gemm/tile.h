/* tile.h: one tile of a gemm in the calling thread. It is the interface between gemm.c, which
 * cuts gemms into tiles, tile.c, which chooses the method of a tile, and the engine (engine.h),
 * which is compiled for f32 and for bf16.
 *
 * Every element of c is one chain of multiply-adds over the inner index, in blocks that depend
 * on its length alone. So the bits of an element depend neither on the tiling nor on other rows
 * and columns. Exceptions are gemms with a very short side, whose method depends on the shape
 * of the whole gemm, and gemms that a library computes. */
#ifndef MF_SIMD_GEMM_TILE_H
#define MF_SIMD_GEMM_TILE_H

#include "kernels/cpu/simd/simd.h"

/* number of lanes that the engine processes at a time if it reads rows in place */
#define BLOCK_LANES 256

/* An operand. In element [i, p], i is the index in c and p is the inner index. */
typedef struct gemm_side {
    const void *at;
    mf_cast_type type;
    int64_t ld;
    bool along;           /* true: stored row i, column p; false: stored row p, column i */
    const int32_t *index; /* indices of stored rows; NULL: the rows are used in order */
    int64_t end;          /* number of readable columns of a stored row */
    bool packed;          /* only for b: pack_weights has packed it, see packed.h */
} gemm_side;

/* Elements [i,j] of c for i0 <= i < i1, j0 <= j < j1, over the inner indices k0 <= p < k1. c
 * points to element [i0,j0], bias to the element for j = 0. */
typedef struct gemm_tile {
    gemm_side a, b;
    int64_t i0, i1, j0, j1, k0, k1;
    void *c;
    mf_cast_type type_c;
    int64_t ldc;
    float alpha, beta;
    const float *bias;
    /* size of the whole gemm, or with MF_BY_ROWS of the group. This size decides how tiles are
     * computed, so bits do not depend on the tiling */
    int64_t rows, cols;
    bool rounded; /* f32 operands are first rounded to bf16 */
    /* The inner indices are rows of a group (gradients of its weights). The engine then
     * computes the sums even if these rows are neighbours in memory, as on ranks that
     * receive them. Gathered rows are always computed by the engine, so both cases have the
     * same bits. */
    bool by_inner;
    /* the tile that this thread computes next, for prefetch; NULL: unknown */
    const struct gemm_tile *next;
} gemm_tile;

/* Computes a tile by the method that is fastest for its shape and this processor. */
void MF_SIMD(gemm_tile)(const gemm_tile *b);

void MF_SIMD(gemm_tile_f32)(const gemm_tile *b);
/* Returns the number of lanes that the f32 engine processes at a time, if rows are copied and
 * the inner index has length k. */
int64_t MF_SIMD(gemm_lanes)(int64_t k);
/* Computes a tile by the engine that multiplies pairs of bf16, for operands that are bf16 or
 * rounded to bf16. The function is defined only with MF_HAVE_AVX512BF16, and may be called only
 * on a processor with these instructions. */
void MF_SIMD(gemm_tile_bf16)(const gemm_tile *b);

/* Whether this processor multiplies pairs of bf16 faster than twice as many f32. */
bool MF_SIMD(pairs_pay)(void);

/* Computes a tile with matrix registers (amx.c). Returns false and does nothing in unsupported
 * cases. The function is defined only with MF_HAVE_AMX. */
bool MF_SIMD(gemm_tile_amx)(const gemm_tile *b);
/* See MF_SIMD(multiply): the same with pairs of bf16, and with matrix registers. They are
 * defined only with MF_HAVE_AVX512BF16, and with MF_HAVE_AMX. */
double MF_SIMD(multiply_pairs)(int64_t rounds);
double MF_SIMD(multiply_tiles)(int64_t rounds);
/* Whether the result of a small gemm by AMX agrees with the result by vectors within 1e-3. */
bool MF_SIMD(gemm_amx_works)(void);
/* Computes tiles of a bf16 gemm that has more than a few rows and that no library computes,
 * including gemms of packed weights. NULL: AMX is not used. Tests set an emulation here. */
extern bool (*MF_SIMD(gemm_amx))(const gemm_tile *b);
/* Sets gemm_amx, stored_amx of stored/stored.h and attention_amx of attention/attention.h, if
 * gemm_amx_works() is true. Call this once, after mf_amx_permitted has returned true, and only
 * on a processor that also has AVX-512 BF16. */
void MF_SIMD(use_amx)(void);

#endif
