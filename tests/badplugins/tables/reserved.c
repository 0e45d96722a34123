/* A reserved field of the descriptor that is not 0. */
#define RESERVED 7
#include "../bad.h"
