/* engine_f32.c: the engine of gemms in f32. Operands in bf16 are converted to f32 when they
 * are packed. */
#define ENGINE_BF16 0
#include "kernels/cpu/simd/gemm/engine.h"

void MF_SIMD(gemm_tile_f32)(const gemm_tile *b)
{
    gemm_tile_run(b);
}

int64_t MF_SIMD(gemm_lanes)(int64_t k)
{
    return lanes_of(even_part(k > 0 ? k : 1, KC, 1));
}
