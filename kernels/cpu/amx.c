/* amx.c: finds out whether the processor has AMX and whether the system lets this process use
 * it. Linux requires a request for permission, because it then saves a larger state for
 * each thread. */
#include "kernels/cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
/* number of AMX tile data in the state that the system saves */
#define TILE_DATA 18
#define AMX_BF16  (1u << 22)
#define AMX_TILE  (1u << 24)

bool mf_amx_permitted(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if ((d & AMX_BF16) == 0 || (d & AMX_TILE) == 0) return false;
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}
#else
bool mf_amx_permitted(void)
{
    return false;
}
#endif
