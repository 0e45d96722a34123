/* graph/device/recorder.c: records captures of queued work and replays them. A recording
 * contains addresses and numbers at the time of the recording. Values that change from step to
 * step are in memory of the device, where each replay reads them. */
#include "graph/device/recorder.h"

#include <string.h>
#include "base/error.h"
#include "base/mem.h"

/* Maximum number of recordings; further captures are queued without a recording. */
enum { MOST = 256 };

typedef struct taped {
    mf_capture capture;
    void *recording; /* NULL: the work was queued once, and is recorded the next time */
} taped;

typedef enum state { IDLE, QUEUES, RECORDS, REPLAYS } state;

struct mf_recorder {
    mf_device *device;
    state state;
    taped *now; /* entry of the present capture; NULL if the capture is only queued */
    int n;
    taped all[MOST];
};

int mf_recorder_new(mf_device *d, mf_recorder **ret)
{
    *ret = NULL;
    if (mf_device_is_host(d) || !d->ops->record_begin) return MF_OK;
    mf_recorder *r = mf_alloc(1, sizeof *r);
    if (!r) return MF_ENOMEM;
    r->device = d;
    *ret = r;
    return MF_OK;
}

void mf_recorder_clear(mf_recorder *r)
{
    if (!r || r->n == 0) return;
    mf_recorder_cancel(r);
    (void)r->device->ops->synchronize(r->device, r->device->stream);
    for (int i = 0; i < r->n; i++)
        if (r->all[i].recording) r->device->ops->recording_free(r->device, r->all[i].recording);
    r->n = 0;
}

void mf_recorder_free(mf_recorder *r)
{
    mf_recorder_clear(r);
    mf_free(r);
}

static taped *find(mf_recorder *r, const mf_capture *capture)
{
    for (int i = 0; i < r->n; i++)
        if (memcmp(&r->all[i].capture, capture, sizeof *capture) == 0) return &r->all[i];
    return NULL;
}

int mf_recorder_begin(mf_recorder *r, const mf_capture *capture)
{
    int rc = MF_OK;
    if (!r) return MF_OK;
    if (r->state != IDLE) return mf_fail(MF_EINVAL, "a capture within a capture");
    r->now = find(r, capture);
    if (r->now && !r->now->recording)
        rc = mf_device_failed(r->device,
                              r->device->ops->record_begin(r->device, r->device->stream));
    if (rc != MF_OK) return rc;
    r->state = !r->now ? QUEUES : r->now->recording ? REPLAYS : RECORDS;
    if (!r->now && r->n < MOST) r->all[r->n++] = (taped){.capture = *capture};
    return MF_OK;
}

bool mf_recorder_replays(const mf_recorder *r)
{
    return r && r->state == REPLAYS;
}

int mf_recorder_end(mf_recorder *r)
{
    int rc = MF_OK;
    if (!r || r->state == IDLE) return MF_OK;
    const state was = r->state;
    mf_device *d = r->device;
    r->state = IDLE;
    if (was == RECORDS)
        rc = mf_device_failed(d, d->ops->record_end(d, d->stream, &r->now->recording));
    if (rc != MF_OK || was == QUEUES) return rc;
    return mf_device_failed(d, d->ops->replay(d, d->stream, r->now->recording));
}

void mf_recorder_cancel(mf_recorder *r)
{
    void *recording = NULL;
    if (!r) return;
    mf_device *d = r->device;
    const state was = r->state;
    r->state = IDLE;
    if (was == RECORDS && d->ops->record_end(d, d->stream, &recording) == MF_OK)
        d->ops->recording_free(d, recording);
}
