/* An option has a flag that is not defined. */
#define OPTIONS {"count", "a number", "1", MF_OPT_INT, 0x80, 8, 0, 10, 0},
#include "../bad.h"
