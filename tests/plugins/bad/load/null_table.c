/* The function table is missing. */
#define VTABLE NULL
#include "../bad.h"
