/* init ends by SIGILL, as an instruction that the processor lacks does. */
#include <signal.h>
#define BEFORE raise(SIGILL);
#include "../bad.h"
