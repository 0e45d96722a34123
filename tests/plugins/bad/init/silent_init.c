/* init fails without a message. */
#define BEFORE                                                                                 \
    (void)ctx;                                                                                 \
    (void)dims;                                                                                \
    if (dims->experts > 0) return MF_ECONFIG;
#include "../bad.h"
