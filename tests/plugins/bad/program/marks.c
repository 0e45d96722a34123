/* The constructor of this good router writes to a file, so that a test sees the load. */
#include <stdio.h>
#ifndef MARK
#define MARK "/dev/null"
#endif
__attribute__((constructor)) static void mark(void)
{
    FILE *f = fopen(MARK, "a");
    if (f) fputs("loaded\n", f);
    if (f) fclose(f);
}
#include "../bad.h"
