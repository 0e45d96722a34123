/* The op's table claims a size of 100 bytes, which no version of mf_opdef has. */
#define OP       "odd"
#define OP_SIZE  100
#define FORWARD  y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
