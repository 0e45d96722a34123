/* base/resident.c: reads the memory of the process as Linux counts it, and returns unused
 * memory to the system. Contents in use never change. */
#include "base/resident.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void mf_resident_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* Advises about the whole pages within a block. */
static void advise(void *begin, size_t bytes, int advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)begin;
    const uintptr_t from = (at + page - 1) / page * page, to = (at + bytes) / page * page;
    if (from < to) madvise((void *)from, to - from, advice);
}

void mf_resident_release(void *begin, size_t bytes)
{
    advise(begin, bytes, MADV_DONTNEED);
}

void mf_resident_leave_out(void *begin, size_t bytes)
{
    advise(begin, bytes, MADV_NOHUGEPAGE);
}

double mf_resident_machine(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
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
        /* RssShmem counts pages of files on tmpfs, which may include the program's own file. */
        if (sscanf(line, "RssAnon: %lu kB", &kib) == 1) r.own = (size_t)kib * 1024;
    }
    if (f) fclose(f);
    if (r.own == 0) r.own = r.now; /* Linux before 4.5 does not report RssAnon */
    return r;
}
