/* init aborts, like a failed assertion. */
#include <stdlib.h>
#define BEFORE abort();
#include "../bad.h"
