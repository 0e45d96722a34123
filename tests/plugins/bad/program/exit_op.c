/* The op ends the program with the status of success. */
#include <stdlib.h>
#define OP "leaver"
#define FORWARD                                                                                \
    if (c->exec->training && c->exec->step == 1) exit(0);                                      \
    y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
