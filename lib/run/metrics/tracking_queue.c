/* run/metrics/tracking_queue.c: a ring buffer that grows up to its limit. Metrics are numbered
 * in the order in which they were put. Metric number i is at index i % room, and `first` is the
 * number of the oldest metric. Metrics that a caller has copied can therefore be removed even
 * if some of them were dropped in the meantime. */
#include "run/metrics/tracking_queue.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

enum { ROOM_MIN = 1 << 12 };

/* All values of a key. */
typedef struct series {
    char *key;
    int64_t known; /* last step that is on the server; -1: none */
} series;

typedef struct entry {
    const series *of;
    double value;
    int64_t step, time;
} entry;

struct mf_tracking_queue {
    pthread_mutex_t lock; /* guards the fields below */
    entry *ring;
    uint64_t first, end, dropped;
    size_t room;
    series **all; /* pointers, because each series keeps its address until the queue is freed */
    size_t n, n_room, next;
};

int mf_tracking_queue_new(mf_tracking_queue **ret)
{
    mf_tracking_queue *q = mf_alloc(1, sizeof *q);
    *ret = q;
    if (!q) return MF_ENOMEM;
    q->room = ROOM_MIN;
    q->ring = mf_alloc_raw(q->room * sizeof *q->ring);
    if (q->ring) {
        pthread_mutex_init(&q->lock, NULL);
        return MF_OK;
    }
    mf_free(q);
    *ret = NULL;
    return MF_ENOMEM;
}

void mf_tracking_queue_free(mf_tracking_queue *q)
{
    if (!q) return;
    for (size_t i = 0; i < q->n; i++) {
        mf_free(q->all[i]->key);
        mf_free(q->all[i]);
    }
    mf_free(q->all);
    mf_free(q->ring);
    pthread_mutex_destroy(&q->lock);
    mf_free(q);
}

static int add_series(mf_tracking_queue *q, const char *key, series **ret)
{
    if (q->n == q->n_room) {
        const size_t room = q->n_room ? 2 * q->n_room : 128;
        series **more = mf_realloc(q->all, q->n * sizeof *more, room * sizeof *more);
        if (!more) return MF_ENOMEM;
        q->all = more;
        q->n_room = room;
    }
    series *s = mf_alloc(1, sizeof *s);
    if (!s || !(s->key = mf_strdup(key))) {
        mf_free(s);
        return MF_ENOMEM;
    }
    s->known = -1;
    q->all[q->n++] = *ret = s;
    return MF_OK;
}

/* Finds or adds the series of a key. Records name their numbers in the same order, so the
 * series is usually the one after the last series found. */
static int find_series(mf_tracking_queue *q, const char *key, series **ret)
{
    for (size_t i = 0; i < q->n; i++) {
        const size_t at = (q->next + i) % q->n;
        if (strcmp(q->all[at]->key, key) != 0) continue;
        q->next = at + 1;
        *ret = q->all[at];
        return MF_OK;
    }
    q->next = 0;
    return add_series(q, key, ret);
}

static int make_room(mf_tracking_queue *q)
{
    if (q->end - q->first < q->room) return MF_OK;
    if (q->room == MF_TRACKING_QUEUE_MAX) {
        q->first++;
        q->dropped++;
        return MF_OK;
    }
    entry *more = mf_alloc_raw(2 * q->room * sizeof *more);
    if (!more) return MF_ENOMEM;
    for (uint64_t i = q->first; i < q->end; i++)
        more[i % (2 * q->room)] = q->ring[i % q->room];
    mf_free(q->ring);
    q->ring = more;
    q->room *= 2;
    return MF_OK;
}

int mf_tracking_queue_put(mf_tracking_queue *q, const mf_tracking_metric *m,
                          size_t *ret_waiting)
{
    series *of = NULL;
    pthread_mutex_lock(&q->lock);
    int rc = find_series(q, m->key, &of);
    const bool wanted = rc == MF_OK && m->step > of->known;
    if (wanted) rc = make_room(q);
    if (wanted && rc == MF_OK)
        q->ring[q->end++ % q->room] = (entry){of, m->value, m->step, m->time};
    *ret_waiting = (size_t)(q->end - q->first);
    pthread_mutex_unlock(&q->lock);
    return rc;
}

int mf_tracking_queue_known(mf_tracking_queue *q, const char *key, int64_t step)
{
    series *of;
    pthread_mutex_lock(&q->lock);
    const int rc = find_series(q, key, &of);
    if (rc == MF_OK) of->known = step;
    pthread_mutex_unlock(&q->lock);
    return rc;
}

void mf_tracking_queue_forget(mf_tracking_queue *q)
{
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->n; i++)
        q->all[i]->known = -1;
    pthread_mutex_unlock(&q->lock);
}

uint64_t mf_tracking_queue_peek(mf_tracking_queue *q, mf_tracking_metric *out, size_t n,
                                size_t *ret_n)
{
    size_t taken = 0;
    pthread_mutex_lock(&q->lock);
    uint64_t i = q->first;
    for (; i < q->end && taken < n; i++) {
        const entry *e = &q->ring[i % q->room];
        if (e->step > e->of->known)
            out[taken++] = (mf_tracking_metric){e->of->key, e->value, e->step, e->time};
    }
    pthread_mutex_unlock(&q->lock);
    *ret_n = taken;
    return i;
}

void mf_tracking_queue_remove(mf_tracking_queue *q, uint64_t mark)
{
    pthread_mutex_lock(&q->lock);
    if (q->first < mark) q->first = mark;
    pthread_mutex_unlock(&q->lock);
}

size_t mf_tracking_queue_waiting(mf_tracking_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const size_t n = (size_t)(q->end - q->first);
    pthread_mutex_unlock(&q->lock);
    return n;
}

uint64_t mf_tracking_queue_dropped(mf_tracking_queue *q)
{
    pthread_mutex_lock(&q->lock);
    const uint64_t n = q->dropped;
    q->dropped = 0;
    pthread_mutex_unlock(&q->lock);
    return n;
}
