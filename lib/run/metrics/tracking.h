/* run/metrics/tracking.h: a run on an MLflow tracking server.
 *
 * Logged values wait in a queue, which a thread sends in batches. No call waits for the server,
 * except mf_tracking_end, which waits some seconds. The thread tries again when the server does
 * not answer, at growing distances; if the queue is full, its oldest values are dropped.
 * Nothing that the server does is an error for the caller: it becomes notes for the log, which
 * mf_tracking_tell prints in the caller's thread.
 *
 * RUN/mlflow.json names the run on the server, so a resumed run continues it: the server is
 * asked for the last step of each metric, and earlier values are not sent again.
 *
 * One thread at a time may use the handle. */
#ifndef MF_RUN_TRACKING_H
#define MF_RUN_TRACKING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mf_tracking mf_tracking;

typedef struct mf_tracking_options {
    const char *server;     /* as http://localhost:5000 */
    const char *experiment; /* it is made if the server has none of that name */
    const char *name;       /* of the run */
    const char *state;      /* path of mlflow.json */
    bool resumed;           /* continue the run that it names */
} mf_tracking_options;

/* Whether the text is an address that can be tried: http:// or https://, a host, then perhaps a
 * port and a path, without a login. */
bool mf_tracking_is_address(const char *text);

/* Makes the queue; the thread begins with mf_tracking_begin. MF_EDEP without libcurl,
 * MF_ENOMEM. A login is taken from MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN, if
 * MLFLOW_TRACKING_URI is the server. */
int mf_tracking_new(const mf_tracking_options *options, mf_tracking **ret);
/* Whether the parameters and tags of the run are on the server already. */
bool mf_tracking_described(const mf_tracking *m);
/* Adds a parameter or a tag, before mf_tracking_begin. In names, bytes that MLflow does not
 * take become '_'; names of more than 250 bytes are skipped, values are cut at 5,000.
 * MF_ENOMEM. */
int mf_tracking_describe(mf_tracking *m, bool tag, const char *name, const char *value);
/* Adds a value. time: ms since 1970. MF_ENOMEM. */
int mf_tracking_log(mf_tracking *m, const char *name, double value, int64_t step, int64_t time);
/* Starts the thread, which makes the run, or finds it, and sends. began: ms since 1970.
 * MF_ERUN: no thread can be started. */
int mf_tracking_begin(mf_tracking *m, int64_t began);
/* Prints the notes of the thread. It costs nothing if there are none. */
void mf_tracking_tell(mf_tracking *m);
/* Sends the rest and the status (FINISHED, FAILED, KILLED), and frees m. It waits 5 seconds for
 * a server that does not answer, and at most 25 for one that is slow. NULL is allowed. */
void mf_tracking_end(mf_tracking *m, const char *status);

#endif
