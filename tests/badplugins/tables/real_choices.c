/* A number with choices, which are no addresses. */
#define OPTIONS {"scale", "a number", "1", MF_OPT_REAL, 0, 0, 0, 10, (const char *const *)8},
#include "../bad.h"
