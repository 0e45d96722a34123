/* init returns a value that is not a status code. */
#define BEFORE                                                                                 \
    if (dims->experts > 0) return 77;
#include "../bad.h"
