/* cache.h: the size of the second-level cache, which determines the tiles of gemms. */
#ifndef MF_CPU_CACHE_H
#define MF_CPU_CACHE_H

#include <stdint.h>

/* Bytes of it per core; 1 MiB if the system does not tell. */
int64_t mf_cpu_second_cache(void);

#endif
