/* A null pointer access in init. */
#define BEFORE *(volatile int *)8 = 1;
#include "../bad.h"
