/* graph/device/recorder.h: records work that is the same in many steps and replays it, so that
 * the host queues the work with one call.
 *
 * A capture is the work that a caller queues between begin and end; its key distinguishes it
 * from other captures. The first time, the work of a capture is queued directly, which also
 * makes the one-time preparations of its kernels. The second time it is recorded, and after
 * that it is replayed. On devices that do not record, and if the recorder is NULL, the work is
 * always queued directly.
 *
 * The capture of a micro-batch contains all of its launches; the capture of the last
 * micro-batch also contains the launches of the optimizer. So a step consists of two copies,
 * one replay and one wait. Values that change from step to step are in memory of the device.
 * Graphs with ops on the host are not recorded. */
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

/* Creates a recorder. d NULL: the host. *ret is NULL if the device does not record. */
int mf_recorder_new(mf_device *d, mf_recorder **ret);
void mf_recorder_free(mf_recorder *r);
/* Deletes all recordings. Call this when memory or values on which they depend have changed. */
void mf_recorder_clear(mf_recorder *r);

/* Begins a capture, which must be ended or cancelled before the next one begins. Until then the
 * caller may only launch kernels, and queue copies and fills within the device. While
 * mf_recorder_replays is true, the caller must not queue this work, but must do
 * everything else. */
int mf_recorder_begin(mf_recorder *r, const mf_capture *capture);
bool mf_recorder_replays(const mf_recorder *r);
/* Queues the recording of this capture, whether it was made just now or earlier. Does nothing
 * outside of a capture. */
int mf_recorder_end(mf_recorder *r);
/* Ends a capture after an error: work that is not queued yet is discarded. */
void mf_recorder_cancel(mf_recorder *r);

#endif
