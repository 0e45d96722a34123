/* The op ends the program with _exit, which runs no atexit handlers. */
#include <unistd.h>
#define OP "leaver"
#define FORWARD                                                                                \
    if (c->exec->training && c->exec->step == 1) _exit(0);                                     \
    y[i] = x[i];
#define BACKWARD dx[i] = dy[i];
#include "../bad.h"
