/* ops/index.h: checks of indices, and the gather of rows. Indices come from data and plugins,
 * so they are checked before kernels use them; on a device only where the run does not know
 * them already (graph/known.c). */
#ifndef MF_OPS_INDEX_H
#define MF_OPS_INDEX_H

#include "ops/call.h"

/* Launches the check that every element of the i32 input i is in lo .. hi-1. An element outside
 * is recorded as the run's fault: kernels that would use it do nothing, and the run ends with a
 * message. The host does not know the result when this function returns. Absent inputs pass. */
void mf_call_check(const mf_call *call, int i, mf_fault_what what, int64_t lo, int64_t hi);
/* Like mf_call_check, for inputs in which every value below 0 means none. */
void mf_call_check_below(const mf_call *call, int i, mf_fault_what what, int64_t hi);
/* Launches the check that the elements of the i32 input i, [E+1], do not decrease and are in 0
 * .. rows. */
void mf_call_check_offset(const mf_call *call, int i, int64_t rows);
/* Launches the check that the first element of the i32 input i, [E+1], is 0. */
void mf_call_check_first(const mf_call *call, int i);
/* Launches the gather of rows of `in` by index [m] into output 0 [m,d], which has the type
 * of `in`. */
void mf_gather(const mf_call *call, const mf_kctx *x, const void *in, const int32_t *index);

#endif
