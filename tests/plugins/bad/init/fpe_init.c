/* init ends by SIGFPE, as a division of integers by 0 does. */
#include <signal.h>
#define BEFORE raise(SIGFPE);
#include "../bad.h"
