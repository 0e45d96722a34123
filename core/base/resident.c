#include "base/resident.h"

#include <stdio.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void mf_resident_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

mf_resident mf_resident_read(void)
{
    mf_resident r = {0};
    char line[256];
    unsigned long kib;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "VmRSS: %lu kB", &kib) == 1) r.now = (size_t)kib * 1024;
        if (sscanf(line, "VmHWM: %lu kB", &kib) == 1) r.peak = (size_t)kib * 1024;
    }
    if (f) fclose(f);
    return r;
}
