/* The descriptor is shorter than in any version. */
#define SIZE 40
#include "../bad.h"
