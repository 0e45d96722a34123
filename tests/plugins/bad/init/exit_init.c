/* init ends the program. */
#include <stdlib.h>
#define BEFORE exit(3);
#include "../bad.h"
