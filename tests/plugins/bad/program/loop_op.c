/* The op never returns. */
#define OP "endless"
#define FORWARD                                                                                \
    for (volatile int64_t n = 0; c->n_in > 0; n++)                                             \
        continue;                                                                              \
    y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
