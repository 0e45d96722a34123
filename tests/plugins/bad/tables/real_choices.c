/* An option of type real has choices, and they point to an address without memory. */
#define OPTIONS {"scale", "a number", "1", MF_OPT_REAL, 0, 0, 0, 10, (const char *const *)8},
#include "../bad.h"
