/* The field of an option is outside of conf. */
#define OPTIONS {"far", "far away", "1", MF_OPT_INT, 0, 4096, 0, 10, NULL},
#include "../bad.h"
