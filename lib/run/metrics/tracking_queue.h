/* run/metrics/tracking_queue.h: metrics that wait to be sent to a server.
 *
 * Any thread may call these functions. The queue is bounded: when it is full, a new metric
 * replaces the oldest one. */
#ifndef MF_RUN_TRACKING_QUEUE_H
#define MF_RUN_TRACKING_QUEUE_H

#include "run/metrics/tracking_client.h"

typedef struct mf_tracking_queue mf_tracking_queue;

/* Greatest number of metrics that wait. A record of a small model has about 50. */
enum { MF_TRACKING_QUEUE_MAX = 1 << 18 };

int mf_tracking_queue_new(mf_tracking_queue **ret); /* MF_ENOMEM */
void mf_tracking_queue_free(mf_tracking_queue *q);  /* NULL is allowed */
/* Adds a metric, unless the server already has its step (mf_tracking_queue_known). The key is
 * copied. *ret_waiting: number of metrics that now wait. MF_ENOMEM. */
int mf_tracking_queue_put(mf_tracking_queue *q, const mf_tracking_metric *metric,
                          size_t *ret_waiting);
/* Records that the server has all values of this key up to the step. These values are skipped,
 * also if they were put before. */
int mf_tracking_queue_known(mf_tracking_queue *q, const char *key, int64_t step);
void mf_tracking_queue_forget(mf_tracking_queue *q); /* Records that the server has
                                                      * no values. */
/* Copies up to n of the oldest metrics, which stay in the queue. Their keys are valid until the
 * queue is freed. Returns a mark for mf_tracking_queue_remove. */
uint64_t mf_tracking_queue_peek(mf_tracking_queue *q, mf_tracking_metric *out, size_t n,
                                size_t *ret_n);
/* Removes the metrics that mf_tracking_queue_peek copied when it returned this mark. */
void mf_tracking_queue_remove(mf_tracking_queue *q, uint64_t mark);
size_t mf_tracking_queue_waiting(mf_tracking_queue *q);
/* Returns how many metrics were dropped since the last call because the queue was full. */
uint64_t mf_tracking_queue_dropped(mf_tracking_queue *q);

#endif
