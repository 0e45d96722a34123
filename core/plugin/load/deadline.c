/* plugin/load/deadline.c: a thread that ends the process if the constructors of a loaded file
 * do not return in time. The thread exists only while the file is loaded, because most plugins
 * are loaded once, before anything is computed. */
#include "plugin/load/deadline.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* number of time slices of the limit; a process that was stopped loses only one of them */
enum { SLICES = 8 };

static void *wait_in_slices(void *arg)
{
    mf_deadline *d = arg;
    char how[64];
    int passed = 0;
    pthread_mutex_lock(&d->lock);
    while (!d->over && passed <= SLICES) {
        struct timespec end;
        const int64_t ns = (int64_t)d->seconds * (1000000000 / SLICES);
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_nsec += (long)(ns % 1000000000);
        end.tv_sec += (time_t)(ns / 1000000000 + end.tv_nsec / 1000000000);
        end.tv_nsec %= 1000000000;
        passed += pthread_cond_timedwait(&d->change, &d->lock, &end) == ETIMEDOUT;
    }
    const bool over = d->over;
    pthread_mutex_unlock(&d->lock);
    if (over) return NULL;
    snprintf(how, sizeof how, "did not return within %d s (MOEFW_PROBE_SECONDS)", d->seconds);
    mf_crash_overdue(d->site, how);
}

void mf_deadline_begin(mf_deadline *d, const mf_site *site, int seconds)
{
    sigset_t all, was;
    pthread_condattr_t monotonic;
    *d = (mf_deadline){.site = site, .seconds = seconds};
    if (!mf_crash_watching()) return;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->change, &monotonic);
    pthread_condattr_destroy(&monotonic);
    /* Signals must be handled by the threads that compute. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    d->runs = pthread_create(&d->thread, NULL, wait_in_slices, d) == 0;
    pthread_sigmask(SIG_SETMASK, &was, NULL);
}

void mf_deadline_end(mf_deadline *d)
{
    if (!d->runs) return;
    pthread_mutex_lock(&d->lock);
    d->over = true;
    pthread_cond_signal(&d->change);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->change);
    pthread_mutex_destroy(&d->lock);
}
