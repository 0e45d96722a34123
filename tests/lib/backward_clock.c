/* backward_clock.c: an object for LD_PRELOAD in which each reading of the time of day is an
 * hour before the previous one. The monotonic clock cannot go backward, so it remains
 * the system's. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t look(void)
{
    static time_t now = 2000000000;
    return __atomic_sub_fetch(&now, 3600, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, t);
    *t = (struct timespec){look(), 0};
    return 0;
}

time_t time(time_t *t)
{
    const time_t now = look();
    if (t) *t = now;
    return now;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    (void)zone;
    *t = (struct timeval){look(), 0};
    return 0;
}
