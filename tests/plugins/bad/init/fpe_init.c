/* init ends with SIGFPE, like a division of integers by 0. */
#include <signal.h>
#define BEFORE raise(SIGFPE);
#include "../bad.h"
