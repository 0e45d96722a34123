/* engine_bf16.c: the engine of gemms in bf16, for processors that multiply pairs of bf16 and
 * add them in f32. */
#define ENGINE_BF16 1
#include "kernels/cpu/simd/gemm/engine.h"

void MF_SIMD(gemm_tile_bf16)(const gemm_tile *b)
{
    gemm_tile_run(b);
}
