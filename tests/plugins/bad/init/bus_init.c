/* init ends with SIGBUS, like an access to a mapped file that became shorter. */
#include <signal.h>
#define BEFORE raise(SIGBUS);
#include "../bad.h"
