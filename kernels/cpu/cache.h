/* cache.h: the size of the second-level cache, which determines the tiles of gemms. */
#ifndef MF_CPU_CACHE_H
#define MF_CPU_CACHE_H

#include <stdint.h>

/* Returns the size of the second-level cache of one core in bytes; 1 MiB if the system does not
 * report it. */
int64_t mf_cpu_second_cache(void);

#endif
