/* Changes the rounding of the whole program. */
#include <fenv.h>
#define BEFORE fesetround(FE_UPWARD);
#include "bad.h"
