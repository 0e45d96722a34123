/* base/clock.c: the monotonic clock of the system. Changes of the system's date do not move it,
 * so a later reading is never smaller than an earlier one. */
#include "base/clock.h"
#include <time.h>

double mf_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
