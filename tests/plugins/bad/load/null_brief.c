/* The description is missing. */
#define BRIEF NULL
#include "../bad.h"
