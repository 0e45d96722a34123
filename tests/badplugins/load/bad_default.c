/* A default that its own bounds forbid. */
#define OPTIONS MF_OPTION_REAL(conf, scale, "11", 0, 10, 0, "too large"),
#include "../bad.h"
