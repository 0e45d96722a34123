/* The constructor accesses memory through a null pointer. */
#include "../bad.h"

__attribute__((constructor)) static void begin(void)
{
    *(volatile int *)8 = 1;
}
