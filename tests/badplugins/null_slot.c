/* Nowhere to put the host table. */
#define SLOT NULL
#include "bad.h"
