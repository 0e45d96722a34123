/* No slot for the host table. */
#define SLOT NULL
#include "../bad.h"
