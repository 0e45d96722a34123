/* The op's table claims to have 100 bytes, which is no size of mf_opdef. */
#define OP       "odd"
#define OP_SIZE  100
#define FORWARD  y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
