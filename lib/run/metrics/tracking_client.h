/* run/metrics/tracking_client.h: requests of MLflow's REST API (version 2.0) for one run.
 *
 * Errors of all functions: MF_EPEER if there is no answer, or an answer that may be different
 * later, such as status 500; MF_EINPUT if MLflow refuses this request (status 400 or 404);
 * MF_ENOMEM. One thread at a time may use a client. */
#ifndef MF_RUN_TRACKING_CLIENT_H
#define MF_RUN_TRACKING_CLIENT_H

#include <stdint.h>

#include "io/http.h"

enum { MF_TRACKING_BATCH = 500, MF_TRACKING_PAIRS = 90, MF_TRACKING_ID = 64 };

typedef struct mf_tracking_client {
    mf_http *http;
    const char *server; /* address without a / at its end */
    const char *experiment, *name;
    char run[MF_TRACKING_ID], experiment_id[MF_TRACKING_ID]; /* "": not yet known */
} mf_tracking_client;

typedef struct mf_tracking_metric {
    const char *key;
    double value;
    int64_t step, time; /* time: ms since 1970 */
} mf_tracking_metric;

typedef struct mf_tracking_pair {
    bool tag; /* true: a tag; false: a parameter */
    char *key, *value;
} mf_tracking_pair;

/* Finds or creates the experiment, and creates a run in it. began: ms since 1970. */
int mf_tracking_create(mf_tracking_client *c, int64_t began);
/* Reads the run from the server, and calls `seen` with the last step of each of its metrics. */
int mf_tracking_read(mf_tracking_client *c,
                     void (*seen)(void *arg, const char *key, int64_t step), void *arg);
/* Sets the status: RUNNING, FINISHED, FAILED, KILLED. ended: ms since 1970; 0: has
 * not ended. */
int mf_tracking_set_status(mf_tracking_client *c, const char *status, int64_t ended);
/* Logs up to MF_TRACKING_BATCH metrics, or up to MF_TRACKING_PAIRS parameters and tags. */
int mf_tracking_log_metrics(mf_tracking_client *c, const mf_tracking_metric *metrics, size_t n);
int mf_tracking_log_pairs(mf_tracking_client *c, const mf_tracking_pair *pairs, size_t n);

#endif
