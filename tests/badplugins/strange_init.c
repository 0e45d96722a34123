/* Returns what is no status. */
#define BEFORE                                                                                 \
    if (dims->experts > 0) return 77;
#include "bad.h"
