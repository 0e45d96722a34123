/* pretrained/weights/values.h: converts values of tensors between files and parameters.
 *
 * Files store F32, F16, BF16 or F64; parameters are f32. Reading loses nothing, except of F64,
 * whose numbers are rounded. Writing rounds to the nearest value, ties to even, so a value that
 * came from a file of another type is written back bit for bit.
 *
 * values: all values of place->param (from mf_values_of; from mf_param_edit if they will be
 * changed), and all values of place->other, or NULL. Only mf_values_read changes them. */
#ifndef MF_PRETRAINED_VALUES_H
#define MF_PRETRAINED_VALUES_H

#include "pretrained/match.h"

/* Returns the values of a parameter for the functions that do not change them. NULL if p is
 * NULL, or if there is not enough memory for a copy. */
static inline float *mf_values_of(const mf_param *p)
{
    return p ? (float *)(uintptr_t)mf_param_host(p) : NULL;
}

/* Reads a tensor, or a weight of several tensors, into its part of a parameter. MF_EINPUT, also
 * for a number of F64 that f32 cannot hold; MF_EIO, MF_ENOMEM. */
int mf_values_read(const mf_source *source, const mf_place *place, float *const values[2]);
/* Compares a tensor bit by bit with its part of a parameter. *ret_same: whether they
 * are equal. */
int mf_values_compare(const mf_source *source, const mf_place *place, float *const values[2],
                      bool *ret_same);
/* Converts a part of a parameter to the type of t, in the order of the tensor, and appends it
 * to a file that is being written. */
int mf_values_write(mf_st_writer *writer, const mf_st_tensor *t, const mf_place *place,
                    float *const values[2]);
/* Functions with this type receive the values in pieces. put gets n bytes each time, and
 * returns a code. */
typedef int mf_values_put(void *arg, const void *data, size_t n);
int mf_values_stream(mf_st_dtype dtype, const mf_place *place, float *const values[2],
                     mf_values_put *put, void *arg);
/* Copies a part of a parameter, in the order of the plain tensor, to out. */
void mf_values_gather(const mf_place *place, float *const values[2], float *out);

#endif
