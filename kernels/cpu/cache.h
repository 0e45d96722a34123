/* cache.h: the size of the second cache, for which tiles of gemms are made. */
#ifndef MF_CPU_CACHE_H
#define MF_CPU_CACHE_H

#include <stdint.h>

/* Bytes of it for each core; 1 MiB if the system does not say. */
int64_t mf_cpu_second_cache(void);

#endif
