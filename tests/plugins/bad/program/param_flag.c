/* A parameter has a flag that is not defined. */
#define BEFORE                                                                                 \
    if (dims->experts > 0)                                                                     \
        return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),                   \
                         mf_init_of(MF_INIT_NORMAL, 0.02, 0x400));
#include "../bad.h"
