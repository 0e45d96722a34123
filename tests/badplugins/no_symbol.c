/* A shared object that is no plugin. */
#define NO_DESCRIPTOR
#include "bad.h"
