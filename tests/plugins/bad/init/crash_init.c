/* init accesses memory through a null pointer. */
#define BEFORE *(volatile int *)8 = 1;
#include "../bad.h"
