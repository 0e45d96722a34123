/* The op sets the rounding mode to upwards and does not restore it. */
#include <fenv.h>
#define OP "upward"
#define FORWARD                                                                                \
    fesetround(FE_UPWARD);                                                                     \
    y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
