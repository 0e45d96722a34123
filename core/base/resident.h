/* base/resident.h: resident memory of the process, as the system counts it. */
#ifndef MF_BASE_RESIDENT_H
#define MF_BASE_RESIDENT_H

#include <stddef.h>

typedef struct mf_resident {
    /* bytes in memory now and at most so far; 0 if the system does not report it */
    size_t now, peak;
    /* The part of `now` that the program itself allocated, without pages of files. The system
     * decides how many pages of files are in memory: programs and libraries are mapped in
     * pieces whose size differs between kernels, and these pieces are shared with
     * other processes. */
    size_t own;
} mf_resident;

mf_resident mf_resident_read(void);
/* bytes of memory of this machine */
double mf_resident_machine(void);
/* Returns to the system the freed memory that the allocator has kept (with glibc only). After
 * this call `now` counts only memory in use. */
void mf_resident_trim(void);
/* Returns the whole pages within a block of mf_alloc to the system. They read as zeros until
 * they are written again. */
void mf_resident_release(void *begin, size_t bytes);

/* Tells the system that this part of a block will not be used. A large page of the memory
 * beside it then does not extend into this part. */
void mf_resident_leave_out(void *begin, size_t bytes);

#endif
