/* The descriptor claims a size that no struct can have. */
#define SIZE 0x7fffffff
#include "../bad.h"
