/* A null pointer access when the file is loaded. */
#include "../bad.h"

__attribute__((constructor)) static void begin(void)
{
    *(volatile int *)8 = 1;
}
