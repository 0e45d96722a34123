/* The op's backward pass computes twice the gradient. */
#define OP       "triple"
#define FORWARD  y[i] = 3 * x[i];
#define BACKWARD dx[i] = 6 * dy[i];
#include "../bad.h"
