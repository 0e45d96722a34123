/* Exports no descriptor, and its constructor would end the process: it must not run. */
__attribute__((constructor)) static void crash(void)
{
    *(volatile int *)8 = 1;
}
#define NO_DESCRIPTOR
#include "../bad.h"
