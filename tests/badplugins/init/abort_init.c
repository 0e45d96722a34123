/* An assertion fails in init. */
#include <stdlib.h>
#define BEFORE abort();
#include "../bad.h"
