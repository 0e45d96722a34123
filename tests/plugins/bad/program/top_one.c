/* This router accepts only top_k = 1 and count = 3, but the default of count is
 * another value. */
#define OPTIONS                                                                                \
    MF_OPTION_REAL(conf, scale, "0", 0, 10, MF_OPT_LIVE, "multiplies the logits"),             \
        MF_OPTION_INT(conf, count, "0", 0, 9, 0, "must be 3"),
#define BEFORE                                                                                 \
    if (dims->top_k != 1) return mf->fail(ctx, MF_ECONFIG, "expected top_k 1");                \
    if (((const conf *)c)->count != 3) return mf->fail(ctx, MF_ECONFIG, "expected count 3");
#include "../bad.h"
