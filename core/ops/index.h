/* ops/index.h: checks of indices, which come from data and plugins, before each use. */
#ifndef MF_OPS_INDEX_H
#define MF_OPS_INDEX_H

#include "ops/call.h"

/* Launches the check that every element of the i32 input i lies in lo .. hi-1. One that does
 * not is recorded as the run's fault, and kernels that would use it do nothing; the run ends
 * with the message. Nothing is known on the host when this returns. Absent
 * inputs pass. */
void mf_call_check(const mf_call *call, int i, mf_fault_what what, int64_t lo, int64_t hi);
/* The same for inputs in which anything below 0 means "nothing". */
void mf_call_check_below(const mf_call *call, int i, mf_fault_what what, int64_t hi);
/* The same for the i32 input i, [E+1], which must rise from 0 to at most `rows`. */
void mf_call_check_offset(const mf_call *call, int i, int64_t rows);
/* Launches the gather of rows of `in`, of output 0's type, into output 0 [m,d]. */
void mf_gather(const mf_call *call, const mf_kctx *x, const void *in, const int32_t *index);

#endif
