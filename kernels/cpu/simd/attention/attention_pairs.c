/* attention_pairs.c: attention of bf16 by the instruction that multiplies pairs of bf16.
 * attention_pairs.h has its gemms. */
#include "kernels/cpu/simd/attention/attention_bf16_forward.h"
