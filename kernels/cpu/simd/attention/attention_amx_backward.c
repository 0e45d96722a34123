/* attention_amx_backward.c: the gradient of attention of bf16
 * by matrix registers of AMX. Its gemms are in attention_tiles.h. */
#define ATTENTION_TILES 1
#include "kernels/cpu/simd/attention/attention_bf16_backward.h"
