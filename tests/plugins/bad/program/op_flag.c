/* The op's table contains a flag that is not defined. */
#define OP       "odd"
#define OP_FLAGS 0x40000000
#define FORWARD  y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
