/* The choices of a whole number point to an address without memory. */
#define OPTIONS {"count", "a number", "1", MF_OPT_INT, 0, 8, 0, 10, (const char *const *)8},
#include "../bad.h"
