/* Another magic number. */
#define MAGIC 0x12345678u
#include "bad.h"
