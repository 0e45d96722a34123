/* init changes the rounding mode of the whole program. */
#include <fenv.h>
#define BEFORE fesetround(FE_UPWARD);
#include "../bad.h"
