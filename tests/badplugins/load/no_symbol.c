/* A shared object that is not a plugin. */
#define NO_DESCRIPTOR
#include "../bad.h"
