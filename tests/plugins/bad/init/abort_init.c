/* init aborts, as a failed assertion does. */
#include <stdlib.h>
#define BEFORE abort();
#include "../bad.h"
