/* cache.c: the size of the second-level cache. It is read once, when kernels are chosen,
 * because reading it may take longer than a small gemm. */
#include "kernels/cpu/cache.h"

#include <unistd.h>

int64_t mf_cpu_second_cache(void)
{
    static int64_t bytes;
    if (bytes == 0) {
#if defined(_SC_LEVEL2_CACHE_SIZE)
        const long found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
        const long found = 0;
#endif
        bytes = found > 0 ? found : (int64_t)1 << 20;
    }
    return bytes;
}
