/* Two options have the same name. */
#define OPTIONS                                                                                \
    MF_OPTION_REAL(conf, scale, "1", 0, 10, 0, "one"),                                         \
        {"scale", "two", "1", MF_OPT_INT, 0, offsetof(conf, count), 0, 10, NULL},
#include "../bad.h"
