/* The help of an option points to an address without memory. */
#define OPTIONS {"count", (const char *)0x7f0000000000, "1", MF_OPT_INT, 0, 8, 0, 10, 0},
#include "../bad.h"
