/* attention_pairs_backward.c: the gradient of attention of bf16
 * by the instruction that multiplies pairs of bf16. Its gemms are in
 * attention_pairs.h. */
#include "kernels/cpu/simd/attention/attention_bf16_backward.h"
