/* No route. */
#define ROUTE NULL
#include "bad.h"
