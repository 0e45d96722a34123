/* Nothing is spoiled: what the others are measured by. */
#include "bad.h"
