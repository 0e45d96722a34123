/* An op between the weights and the loss has no gradient. */
#define OP      "twice"
#define FORWARD y[i] = 2 * x[i];
#include "../bad.h"
