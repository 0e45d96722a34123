/* The reserved field of the descriptor is not 0. */
#define RESERVED 7
#include "../bad.h"
