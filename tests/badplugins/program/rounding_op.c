/* Its op rounds upwards, and leaves it so. */
#include <fenv.h>
#define OP       "upward"
#define FORWARD  fesetround(FE_UPWARD); y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
