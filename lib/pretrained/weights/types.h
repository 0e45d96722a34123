/* pretrained/weights/types.h: converts elements of a stored type from and to f32. */
#ifndef MF_PRETRAINED_TYPES_H
#define MF_PRETRAINED_TYPES_H

#include "data/safetensors/safetensors.h"

/* These functions convert n elements. dtype: F32, F16, BF16 or F64. */
void mf_types_to_f32(mf_st_dtype dtype, const void *from, int64_t n, float *to);
void mf_types_from_f32(mf_st_dtype dtype, const float *from, int64_t n, void *to);

#endif
