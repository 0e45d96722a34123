/* No name. */
#define NAME NULL
#include "bad.h"
