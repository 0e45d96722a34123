/* Ends the program when the file is loaded. */
#include <stdlib.h>
#include "../bad.h"

__attribute__((constructor)) static void begin(void)
{
    exit(0);
}
