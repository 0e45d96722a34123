/* run/metrics/tracking_queue.h: metrics that wait until a server takes them.
 *
 * Any thread may call these functions. The queue is bounded: when it is full, the oldest metric
 * gives way to a new one. */
#ifndef MF_RUN_TRACKING_QUEUE_H
#define MF_RUN_TRACKING_QUEUE_H

#include "run/metrics/tracking_client.h"

typedef struct mf_tracking_queue mf_tracking_queue;

/* Greatest number of metrics that wait. A record of a small model has about 50. */
enum { MF_TRACKING_QUEUE_MAX = 1 << 18 };

int mf_tracking_queue_new(mf_tracking_queue **ret); /* MF_ENOMEM */
void mf_tracking_queue_free(mf_tracking_queue *q);  /* NULL is allowed */
/* Adds a metric, unless the server has its step already (see below). The key is copied.
 * *ret_waiting: how many wait now. MF_ENOMEM. */
int mf_tracking_queue_put(mf_tracking_queue *q, const mf_tracking_metric *metric,
                          size_t *ret_waiting);
/* The server has all values of this key up to the step: they are skipped when they are taken,
 * also those that were put before. */
int mf_tracking_queue_known(mf_tracking_queue *q, const char *key, int64_t step);
void mf_tracking_queue_forget(mf_tracking_queue *q); /* the server has none */
/* Copies up to n of the oldest metrics, which stay in the queue. Their keys are valid until the
 * queue is freed. Returns a mark for the next function. */
uint64_t mf_tracking_queue_peek(mf_tracking_queue *q, mf_tracking_metric *out, size_t n,
                                size_t *ret_n);
/* Removes the metrics that the call with this mark has returned. */
void mf_tracking_queue_remove(mf_tracking_queue *q, uint64_t mark);
size_t mf_tracking_queue_waiting(mf_tracking_queue *q);
/* How many were dropped because the queue was full, since the last call. */
uint64_t mf_tracking_queue_dropped(mf_tracking_queue *q);

#endif
