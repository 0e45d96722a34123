/* init ends with SIGILL, like an instruction that the processor does not have. */
#include <signal.h>
#define BEFORE raise(SIGILL);
#include "../bad.h"
