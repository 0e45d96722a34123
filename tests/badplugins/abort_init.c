/* A failed assertion in init. */
#include <stdlib.h>
#define BEFORE abort();
#include "bad.h"
