/* Ends the program in init. */
#include <stdlib.h>
#define BEFORE exit(3);
#include "../bad.h"
