/* The magic number is wrong. */
#define MAGIC 0x12345678u
#include "../bad.h"
