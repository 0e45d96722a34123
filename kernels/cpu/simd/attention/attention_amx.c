/* attention_amx.c: attention of bf16 by matrix registers of AMX.
 * attention_tiles.h has its gemms. */
#define ATTENTION_TILES 1
#include "kernels/cpu/simd/attention/attention_bf16_forward.h"
