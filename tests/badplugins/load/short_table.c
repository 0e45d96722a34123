/* A function table without route. */
#define VTABLE_SIZE 16
#include "../bad.h"
