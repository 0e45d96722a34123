/* A good router whose constructor leaves a file, so that a test sees whether it was loaded. */
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
