/* base/resident.h: how much memory the process holds, as the system counts it. */
#ifndef MF_BASE_RESIDENT_H
#define MF_BASE_RESIDENT_H

#include <stddef.h>

typedef struct mf_resident {
    size_t now, peak; /* bytes in memory; 0 where the system does not tell */
} mf_resident;

mf_resident mf_resident_read(void);
/* Gives back to the system what was freed and is kept for later: then `now` is what is in
 * use. */
void mf_resident_trim(void);
/* Gives back the whole pages within a block of mf_alloc: they read as zeros from now on, until
 * they are written again. */
void mf_resident_give_back(void *begin, size_t bytes);

#endif
