/* init ends by SIGBUS, as an access of a mapped file that became shorter does. */
#include <signal.h>
#define BEFORE raise(SIGBUS);
#include "../bad.h"
