/* plugin/load/deadline.h: names a plugin whose constructors do not return.
 *
 * The child process that tries a plugin has a time limit, but a constructor may behave
 * differently in the program itself. So there is a deadline in the program, too. */
#ifndef MF_PLUGIN_DEADLINE_H
#define MF_PLUGIN_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>

#include "plugin/crash.h"

typedef struct mf_deadline {
    const mf_site *site;
    int seconds;
    bool runs, over; /* over: the constructors have returned */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
} mf_deadline;

/* Sets a deadline. If mf_deadline_end does not follow within `seconds`, the program ends with
 * status 4 and the line of a crash, which names the site. There is no deadline without
 * mf_crash_watch, or without memory for a thread. The site must stay valid until the end. */
void mf_deadline_begin(mf_deadline *d, const mf_site *site, int seconds);
void mf_deadline_end(mf_deadline *d);

#endif
