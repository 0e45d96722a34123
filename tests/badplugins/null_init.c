/* No init. */
#define INIT NULL
#include "bad.h"
