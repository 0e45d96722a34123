/* A null pointer before anybody asked. */
#include "bad.h"

__attribute__((constructor)) static void begin(void)
{
    *(volatile int *)8 = 1;
}
