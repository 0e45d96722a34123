/* The descriptor has no slot for the host table. */
#define SLOT NULL
#include "../bad.h"
