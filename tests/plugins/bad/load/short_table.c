/* The function table ends before route. */
#define VTABLE_SIZE 16
#include "../bad.h"
