/* No function table. */
#define VTABLE NULL
#include "bad.h"
