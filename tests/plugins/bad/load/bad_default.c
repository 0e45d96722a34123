/* The default of an option is outside its own bounds. */
#define OPTIONS MF_OPTION_REAL(conf, scale, "11", 0, 10, 0, "too large"),
#include "../bad.h"
