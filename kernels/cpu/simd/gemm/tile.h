/* tile.h: one tile of a gemm in the calling thread: the interface between gemm.c, which cuts
 * gemms into tiles, tile.c, which chooses who computes one, and the engine (engine.h), which is
 * compiled for f32 and for bf16.
 *
 * Every element of c is one chain of multiply-adds over the inner index, in blocks that depend
 * on its length alone. So its bits depend neither on the tiling nor on the rows and columns
 * beside it. Exceptions are gemms of very few rows and those that a library computes.
 */
#ifndef MF_SIMD_GEMM_TILE_H
#define MF_SIMD_GEMM_TILE_H

#include "kernels/cpu/simd/simd.h"

#define BLOCK_LANES 256 /* at most, of a tile whose rows are read in place */

/* An operand: element [i, p], i along its side of c, p the inner index. */
typedef struct gemm_side {
    const void *at;
    mf_cast_type type;
    int64_t ld;
    bool along;           /* stored row i, column p; else stored row p, column i */
    const int32_t *index; /* of stored rows; NULL: none */
    int64_t end;          /* columns of a stored row that may be read */
    bool packed;          /* b only: as pack_weights left it, see packed.h */
} gemm_side;

/* Elements [i,j] of c for i0 <= i < i1, j0 <= j < j1, over the inner indices k0 .. k1. c points
 * to element [i0,j0], bias to that of j = 0. */
typedef struct gemm_tile {
    gemm_side a, b;
    int64_t i0, i1, j0, j1, k0, k1;
    void *c;
    mf_cast_type type_c;
    int64_t ldc;
    float alpha, beta;
    const float *bias;
    int64_t rows, cols; /* of the whole gemm: who computes a tile is chosen by them, so
                           that bits do not depend on the tiling */
    bool rounded;       /* operands that are f32 are rounded to bf16 first */
    const struct gemm_tile *next; /* what this thread computes next, for prefetch; NULL:
                                    not known */
} gemm_tile;

/* Computes a tile by whatever is fastest for it. */
void MF_SIMD(gemm_tile)(const gemm_tile *b);

void MF_SIMD(gemm_tile_f32)(const gemm_tile *b);
/* How many lanes the f32 engine takes at once, if rows are copied and the inner index is
 * so long. */
int64_t MF_SIMD(gemm_lanes)(int64_t k);
/* For operands that are bf16 or are rounded to it. It exists only if MF_HAVE_AVX512BF16 is
 * defined, and may be called only on a processor that has these instructions. */
void MF_SIMD(gemm_tile_bf16)(const gemm_tile *b);

/* By matrices in registers (amx.c), for operands that are bf16 or are rounded to it. Returns
 * false and does nothing if it does not know the case. It exists only if MF_HAVE_AMX
 * is defined. */
bool MF_SIMD(gemm_tile_amx)(const gemm_tile *b);
/* Whether a small gemm by AMX gives what vectors give. */
bool MF_SIMD(gemm_amx_works)(void);
/* Tried first for gemms in bf16; NULL: nothing is. Tests put an emulation here. */
extern bool (*MF_SIMD(gemm_amx))(const gemm_tile *b);
/* Called once, on a processor that has AMX, if the system permits its use. */
void MF_SIMD(use_amx)(void);

#endif
