/* An op without a gradient between its weights and the loss. */
#define OP      "twice"
#define FORWARD y[i] = 2 * x[i];
#include "../bad.h"
