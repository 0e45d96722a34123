/* The file exports no descriptor, so its constructor, which crashes, must not run. */
__attribute__((constructor)) static void crash(void)
{
    *(volatile int *)8 = 1;
}
#define NO_DESCRIPTOR
#include "../bad.h"
