/* cache.h: this machine's second cache, into which blocks of products are fitted. */
#ifndef MF_CPU_CACHE_H
#define MF_CPU_CACHE_H

#include <stdint.h>

/* Bytes of it that a core has; a megabyte where the machine does not say. */
int64_t mf_cpu_second_cache(void);

#endif
