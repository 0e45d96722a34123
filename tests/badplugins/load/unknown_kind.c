/* A kind that does not exist. */
#define KIND 9
#include "../bad.h"
