/* The name is missing. */
#define NAME NULL
#include "../bad.h"
