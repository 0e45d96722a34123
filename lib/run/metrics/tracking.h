/* run/metrics/tracking.h: a run on an MLflow tracking server.
 *
 * Logged values wait in a queue, which a thread sends in batches. No call waits for the server,
 * except mf_tracking_end, which waits some seconds. If the server does not answer, the thread
 * tries again at growing intervals. If the queue is full, its oldest values are dropped. An
 * error of the server is not an error for the caller. It becomes a note for the log, which
 * mf_tracking_tell prints in the caller's thread.
 *
 * RUN/mlflow.json names the run on the server, so a resumed run continues it. The thread asks
 * the server for the last step of each metric, and earlier values are not sent again.
 *
 * One thread at a time may use the handle. */
#ifndef MF_RUN_TRACKING_H
#define MF_RUN_TRACKING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_tracking mf_tracking;

typedef struct mf_tracking_options {
    const char *server;     /* for example http://localhost:5000 */
    const char *experiment; /* name of the experiment, which is created if the server does not
                             * have it */
    const char *name;       /* name of the run */
    const char *state;      /* path of mlflow.json */
    bool resumed;           /* continue the run that `state` names */
} mf_tracking_options;

/* Whether the text is an address that can be used: http:// or https://, a host, optionally a
 * port and a path, and no login. */
bool mf_tracking_is_address(const char *text);

/* Makes the queue. mf_tracking_begin starts the thread. MF_EDEP without libcurl, MF_ENOMEM. A
 * login is read from MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN, if MLFLOW_TRACKING_URI
 * is the server. */
int mf_tracking_new(const mf_tracking_options *options, mf_tracking **ret);
/* Whether the parameters and tags of the run are on the server already. */
bool mf_tracking_described(const mf_tracking *m);
/* Adds a parameter or a tag, before mf_tracking_begin. In names, bytes that MLflow does not
 * accept become '_'. Names of more than 250 bytes are skipped, and values are cut at 5,000
 * bytes. MF_ENOMEM. */
int mf_tracking_describe(mf_tracking *m, bool tag, const char *name, const char *value);
/* Adds a value. time: ms since 1970. MF_ENOMEM. */
int mf_tracking_log(mf_tracking *m, const char *name, double value, int64_t step, int64_t time);
/* Starts the thread, which creates or finds the run and sends the values. began: ms since 1970.
 * MF_ERUN: no thread can be started. */
int mf_tracking_begin(mf_tracking *m, int64_t began);
/* Prints the notes of the thread. It costs nothing if there are none. */
void mf_tracking_tell(mf_tracking *m);
/* Sends the remaining values and the status (FINISHED, FAILED, KILLED), and frees m. It waits 5
 * seconds for a server that does not answer, and at most 25 seconds for a slow server. NULL
 * is allowed. */
void mf_tracking_end(mf_tracking *m, const char *status);

#endif
