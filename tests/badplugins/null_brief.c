/* No description. */
#define BRIEF NULL
#include "bad.h"
