/* The constructor ends the program. */
#include <stdlib.h>
#include "../bad.h"

__attribute__((constructor)) static void begin(void)
{
    exit(0);
}
