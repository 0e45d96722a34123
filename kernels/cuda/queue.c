/* kernels/cuda/queue.c: streams, events and waiting. Kernels return no error, so each wait
 * first reads the errors of earlier launches. */
#include "kernels/cuda/backend.h"

#include <pthread.h>
#include "kernels/cuda/launch.h"

/* ---- streams ---- */

enum { STREAMS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const void *stream;
    mf_cuda *owner;
} owned[STREAMS];

mf_cuda *mf_cuda_of_stream(const void *stream)
{
    mf_cuda *found = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < STREAMS && !found; i++)
        if (owned[i].stream == stream) found = owned[i].owner;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Replaces the first entry for stream `from` (NULL: a free entry). False: there is no
 * such entry. */
static bool enter(const void *from, const void *stream, mf_cuda *owner)
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < STREAMS && owned[i].stream != from)
        i++;
    if (i < STREAMS) {
        owned[i].stream = stream;
        owned[i].owner = owner;
    }
    pthread_mutex_unlock(&lock);
    return i < STREAMS;
}

void *mf_cuda_scratch(const mf_kctx *x, size_t bytes)
{
    const mf_cuda *c = mf_cuda_of_stream(x->stream);
    return c && bytes <= MF_CUDA_SCRATCH ? c->scratch : NULL;
}

int mf_cuda_stream_new(mf_device *d, void **ret)
{
    mf_cuda *c = mf_cuda_of(d);
    cudaStream_t stream;
    const int rc = mf_cuda_judge(c, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                                 "a new stream");
    if (rc != MF_OK) return rc;
    if (!enter(NULL, stream, c)) {
        (void)cudaStreamDestroy(stream);
        return mf_cuda_judge(c, cudaErrorMemoryAllocation, "one more stream");
    }
    *ret = stream;
    return MF_OK;
}

void mf_cuda_stream_free(mf_device *d, void *stream)
{
    enter(stream, NULL, NULL);
    (void)mf_cuda_judge(mf_cuda_of(d), cudaStreamDestroy(stream), "the end of a stream");
}

/* Returns the errors of launches: those that CUDA has kept, and those of cuBLASLt. */
static int launches(mf_cuda *c)
{
    const int rc = mf_cuda_judge(c, cudaGetLastError(), "the launch of a kernel");
    return rc == MF_OK ? mf_cuda_lt_error(c) : rc;
}

int mf_cuda_event_new(mf_device *d, void **ret)
{
    cudaEvent_t event;
    const int rc = mf_cuda_judge(
        mf_cuda_of(d), cudaEventCreateWithFlags(&event, cudaEventDefault), "a new event");
    if (rc == MF_OK) *ret = event;
    return rc;
}

void mf_cuda_event_free(mf_device *d, void *event)
{
    (void)mf_cuda_judge(mf_cuda_of(d), cudaEventDestroy(event), "the end of an event");
}

int mf_cuda_event_record(mf_device *d, void *event, void *stream)
{
    return mf_cuda_judge(mf_cuda_of(d), cudaEventRecord(event, stream), "an event");
}

int mf_cuda_stream_wait(mf_device *d, void *stream, void *event)
{
    return mf_cuda_judge(mf_cuda_of(d), cudaStreamWaitEvent(stream, event, 0),
                         "a wait for an event");
}

int mf_cuda_event_wait(mf_device *d, void *event)
{
    mf_cuda *c = mf_cuda_of(d);
    const int rc = launches(c);
    if (rc != MF_OK) return rc;
    return mf_cuda_judge(c, cudaEventSynchronize(event), "waiting for an event");
}

int mf_cuda_event_elapsed(mf_device *d, void *from, void *to, double *ret_ms)
{
    float ms = 0;
    const int rc = mf_cuda_judge(mf_cuda_of(d), cudaEventElapsedTime(&ms, from, to),
                                 "the time between two events");
    *ret_ms = (double)ms;
    return rc;
}

int mf_cuda_synchronize(mf_device *d, void *stream)
{
    mf_cuda *c = mf_cuda_of(d);
    const int rc = launches(c);
    if (rc != MF_OK) return rc;
    return mf_cuda_judge(c, stream ? cudaStreamSynchronize(stream) : cudaDeviceSynchronize(),
                         "waiting for the GPU");
}

/* ---- recordings: CUDA graphs ---- */

int mf_cuda_record_begin(mf_device *d, void *stream)
{
    mf_cuda *c = mf_cuda_of(d);
    const int rc = launches(c);
    if (rc != MF_OK) return rc;
    return mf_cuda_judge(c, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                         "the begin of a recording");
}

int mf_cuda_record_end(mf_device *d, void *stream, void **ret)
{
    mf_cuda *c = mf_cuda_of(d);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec;
    int rc = launches(c);
    /* The recording is ended even if a launch failed. In this case `message` keeps the text of
     * the launch, and the error of the end is cleared, so that no later call reports it. */
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (rc == MF_OK)
        rc = mf_cuda_judge(c, ended, "the end of a recording");
    else
        (void)cudaGetLastError();
    if (rc == MF_OK)
        rc = mf_cuda_judge(c, cudaGraphInstantiate(&exec, graph, 0), "a recording");
    if (graph) (void)cudaGraphDestroy(graph);
    if (rc == MF_OK) *ret = exec;
    return rc;
}

int mf_cuda_replay(mf_device *d, void *stream, void *recording)
{
    return mf_cuda_judge(mf_cuda_of(d), cudaGraphLaunch(recording, stream),
                         "the launch of a recording");
}

void mf_cuda_recording_free(mf_device *d, void *recording)
{
    if (recording)
        (void)mf_cuda_judge(mf_cuda_of(d), cudaGraphExecDestroy(recording),
                            "the end of a recording");
}
