/* base/resident.h: resident memory of the process, as the system counts it. */
#ifndef MF_BASE_RESIDENT_H
#define MF_BASE_RESIDENT_H

#include <stddef.h>

typedef struct mf_resident {
    /* bytes in memory now and at most so far; 0 if the system does not report it */
    size_t now, peak;
    /* of `now`: what the program itself takes, without pages of files. How many of those are in
     * memory is decided by the system: program and libraries are mapped in pieces whose size
     * differs between kernels, and are shared with other processes. */
    size_t own;
} mf_resident;

mf_resident mf_resident_read(void);
/* Bytes of memory of this machine. */
double mf_resident_machine(void);
/* Returns to the system the freed memory that the allocator has kept (with glibc only), so that
 * `now` counts memory in use. */
void mf_resident_trim(void);
/* Returns the whole pages within a block of mf_alloc to the system. They read as zeros until
 * they are written again. */
void mf_resident_release(void *begin, size_t bytes);

/* Says that a part of a block will not be used, so that no large page of memory in use beside
 * it reaches into it. */
void mf_resident_leave_out(void *begin, size_t bytes);

#endif
