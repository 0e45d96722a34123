/* The function table contains a flag that is not defined. */
#define FLAGS 0x40
#include "../bad.h"
