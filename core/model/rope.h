/* model/rope.h: rotary positions as the configuration describes them: which columns of a head
 * are rotated, and how their angles are scaled so that a longer text fits. */
#ifndef MF_MODEL_ROPE_H
#define MF_MODEL_ROPE_H

#include "model/model.h"

/* Returns the number of rotated columns of a head. */
int64_t mf_rope_dims(const mf_model_config *c);
/* Writes the factor on the angle of each of the n / 2 pairs of n rotated columns. All factors
 * are 1 if rope_scaling = none, or given: those are the values of the buffer rope.factor. */
void mf_rope_factors(const mf_model_config *c, int64_t n, float *out);
/* Returns the factor on rotated values. */
double mf_rope_magnitude(const mf_model_config *c);
/* Rotates the first n_heads heads of x [T, >= n_heads head_dim] by the graph's positions, with
 * the block's rope. rope_dims columns of each head are rotated. */
mf_tensor *mf_model_rope(const mf_model *m, mf_model_graph *mg, int32_t layer, mf_tensor *x,
                         int64_t head_dim, int64_t n_heads);
/* Like mf_model_rope, but rotates columns first .. first + n - 1 of each head. */
mf_tensor *mf_model_rope_part(const mf_model *m, mf_model_graph *mg, int32_t layer,
                              mf_tensor *x, int64_t head_dim, int64_t n_heads, int64_t first,
                              int64_t n);

#endif
