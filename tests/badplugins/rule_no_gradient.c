/* An op without a gradient on the way from the loss to its weights. */
#define OP "twice"
#define FORWARD y[i] = 2 * x[i];
#include "bad.h"
