/* ops/index.h: indices come from data and plugins: they are checked when they are used. */
#ifndef MF_OPS_INDEX_H
#define MF_OPS_INDEX_H

#include "ops/call.h"

/* MF_OK when every entry of the i32 input i, called `what` in messages, lies in lo .. hi-1;
 * else MF_EPLUGIN naming the first row that does not and its value. */
int mf_call_check(const mf_call *call, int i, const char *what, int64_t lo, int64_t hi);
/* The same for inputs in which anything below 0 means "nothing". */
int mf_call_check_below(const mf_call *call, int i, const char *what, int64_t hi);
/* The i32 input i, [E+1], rises from 0 to at most `rows`; else MF_EPLUGIN naming the offset. */
int mf_call_check_offset(const mf_call *call, int i, int64_t rows);
/* Output 0, [m,d]: its rows are those of `in`, of its type, that the indices name. */
void mf_gather(const mf_call *call, const mf_kctx *x, const void *in, const int32_t *index);

#endif
