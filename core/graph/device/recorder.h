/* graph/device/recorder.h: work that is the same in many steps is recorded and replayed, so
 * that the host queues it with one call.
 *
 * A capture is the work that a caller queues between begin and end; its key says in what it
 * differs from others. Its first time it is queued as it is, which prepares what kernels need
 * once; the second time it is recorded; from then on it is replayed. On devices that do not
 * record, and with NULL for the recorder, it is always queued as it is.
 *
 * The capture of a micro-batch contains all of its launches; the capture of the last
 * micro-batch also contains those of the optimizer. So a step costs two copies, one replay and
 * one wait. What changes from step to step is in memory of the device. Graphs with ops on the
 * host are not recorded. */
#ifndef MF_GRAPH_RECORDER_H
#define MF_GRAPH_RECORDER_H

#include "graph/device/device.h"

#define MF_STRETCH_KEY 4

/* The key that distinguishes captures. Its bytes are compared, so pointers must be valid
 * until mf_recorder_clear. */
typedef struct mf_capture {
    int64_t key[MF_STRETCH_KEY];
} mf_capture;

typedef struct mf_recorder mf_recorder;

/* d: NULL stands for the host. *ret is NULL if the device does not record. */
int mf_recorder_new(mf_device *d, mf_recorder **ret);
void mf_recorder_free(mf_recorder *r);
/* Forgets all recordings: memory or values on which they depend have changed. */
void mf_recorder_clear(mf_recorder *r);

/* Begins a capture, which must be ended or cancelled before the next. Until then the caller
 * may only launch kernels, and queue copies and fills within the device. It must not do this,
 * but do all else, while mf_recorder_replays is true. */
int mf_recorder_begin(mf_recorder *r, const mf_capture *capture);
bool mf_recorder_replays(const mf_recorder *r);
/* Queues the recording of this capture, which was made just now or earlier. Outside a capture
 * it does nothing. */
int mf_recorder_end(mf_recorder *r);
/* Ends a capture after an error: work that is not queued yet is discarded. */
void mf_recorder_cancel(mf_recorder *r);

#endif
