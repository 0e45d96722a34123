/* init never returns. */
#define BEFORE                                                                                 \
    for (volatile int i = 0;; i = 0)                                                           \
        (void)i;
#include "../bad.h"
