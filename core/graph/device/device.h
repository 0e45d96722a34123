/* graph/device/device.h: devices, which store values in their memory and run kernels.
 *
 * A device has memory, streams that execute queued work in order, and a set of kernels. A
 * backend is a file `backend_NAME.so`, which is found in the plugin folders when a run names
 * it, and is never linked. It exports one constant, moefw_backend, whose function fills an
 * mf_device for each device that is opened. The host is a device, too: the program can read its
 * memory, its functions return when their work is done, it needs no backend, and it is
 * represented by NULL.
 *
 * Core accesses memory of a device only through this table. Queued work may run at any time
 * until the host waits for it; host memory of a queued copy must not change before. Functions
 * that return int return MF_OK, or an error code with a text for `message`. An error of queued
 * work is returned by the next synchronize. A device and everything made with it belong to one
 * thread at a time; two devices share nothing.
 *
 * In a run a graph exchanges two copies with its device (graph/exchange.c). The first copy
 * sends inputs, live scalars, the key of random numbers and the optimizer's numbers to the
 * device. The second copy returns losses, statistics, the sum of squares and the first fault.
 * Nothing is read between launches. Ops of core only launch kernels. An op of a plugin has
 * launch functions for a device (mf_opdef.launch) or kernels as data. An op without either, or
 * an op that needs a kernel that the device lacks (graph/unsupported.c), runs on the host with
 * copies before and after it (graph/fallback.c). The log reports this once, and device.strict
 * refuses it. */
#ifndef MF_GRAPH_DEVICE_H
#define MF_GRAPH_DEVICE_H

#include <moefw/op.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernel.h"

typedef struct mf_device mf_device;

/* Flags of mf_device_ops.flags. */
/* The program can access the device's memory, and work is done when a function returns. */
#define MF_DEVICE_HOST_MEMORY 1u
/* The device's kernels of attention are faster if queries, keys and values are bf16, so graphs
 * that compute in bf16 convert them. */
#define MF_DEVICE_BF16_ATTENTION 2u

typedef struct mf_device_ops {
    uint32_t size;
    uint32_t flags;
    const char *name; /* "cpu" or "cuda": the value of train.device without the number of
                       * the device */
    void (*close)(mf_device *d);
    /* Text of the last error of this device; never NULL. */
    const char *(*message)(mf_device *d);

    /* Allocates memory, 64-byte aligned, with undefined contents. free(NULL) is allowed; queued
     * work that uses the block must be done before it is freed. MF_ENOMEM: there is not
     * enough memory. */
    int (*alloc)(mf_device *d, size_t bytes, void **ret);
    void (*free)(mf_device *d, void *block);
    /* Allocates host memory for queued copies, which a device may access directly. */
    int (*alloc_host)(mf_device *d, size_t bytes, void **ret);
    void (*free_host)(mf_device *d, void *block);
    /* Returns the free and the total memory in bytes. */
    int (*memory)(mf_device *d, size_t *ret_free, size_t *ret_total);

    /* These functions queue work: copies from host to device, from device to host, and within
     * the device; `fill` sets all bytes to one value. */
    int (*write)(mf_device *d, void *stream, void *to, const void *from_host, size_t bytes);
    int (*read)(mf_device *d, void *stream, void *to_host, const void *from, size_t bytes);
    int (*copy)(mf_device *d, void *stream, void *to, const void *from, size_t bytes);
    int (*fill)(mf_device *d, void *stream, void *to, int byte, size_t bytes);

    /* Streams run concurrently unless events order them. An event marks the work queued in a
     * stream up to its last record. */
    int (*stream_new)(mf_device *d, void **ret);
    void (*stream_free)(mf_device *d, void *stream);
    int (*event_new)(mf_device *d, void **ret);
    void (*event_free)(mf_device *d, void *event);
    int (*event_record)(mf_device *d, void *event, void *stream);
    /* Queues a wait of the stream for the event. */
    int (*stream_wait)(mf_device *d, void *stream, void *event);
    /* The host waits for the event. */
    int (*event_wait)(mf_device *d, void *event);
    /* stream NULL: waits for all streams */
    int (*synchronize)(mf_device *d, void *stream);

    /* For tests: returns the set of kernels that computes like the host's set `host`, or the
     * device's usual set if `host` is NULL. The function pointer is NULL if the device has only
     * one set. */
    const mf_kernels *(*kernels_like)(mf_device *d, const mf_kernels *host);

    /* Recordings. Work that is queued in a stream between begin and end is not executed;
     * `replay` queues all of it again, as often as it is called. Between begin and end the
     * caller may only launch kernels, and queue copies and fills within the device. All four
     * functions are NULL if the device does not record. If end fails, there is no recording,
     * and nothing was executed. */
    int (*record_begin)(mf_device *d, void *stream);
    int (*record_end)(mf_device *d, void *stream, void **ret);
    int (*replay)(mf_device *d, void *stream, void *recording);
    /* All replays of the recording must be done. */
    void (*recording_free)(mf_device *d, void *recording);

    /* Kernels of plugins (mf_device_code). All four functions are NULL if the device
     * supports none.
     * - code_load returns MF_EDEP if the image has nothing for this device,
     *   and MF_EPLUGIN if the image is broken.
     * - code_kernel loads a kernel of the image in advance, because a launch in a recording
     *   must not load it. It returns the same codes, and MF_EPLUGIN if the image has no kernel
     *   of this name.
     * - code_launch queues one launch with a copy of args.
     * - code_free requires that no launch is queued. */
    int (*code_load)(mf_device *d, const void *image, void **ret);
    int (*code_kernel)(mf_device *d, void *code, const char *name, void **ret);
    int (*code_launch)(mf_device *d, void *stream, void *kernel, const mf_kernel_launch *l,
                       const mf_kernel_args *args);
    void (*code_free)(mf_device *d, void *code);

    /* Returns the FLOP per second of dense gemms of this type, according to the device's data
     * sheet or its clock; 0: not known. A NULL pointer means the same as 0. */
    double (*peak)(mf_device *d, bool bf16);

    /* Computes the milliseconds of the device between two events of one stream, which must both
     * be complete. NULL: events have no times. */
    int (*event_elapsed)(mf_device *d, void *from, void *to, double *ret_ms);
} mf_device_ops;

struct mf_device {
    const mf_device_ops *ops;
    void *self;                /* data of the backend */
    const mf_kernels *kernels; /* kernels of the device; NULL: the host's kernel set */
    /* main stream, in which graphs, stores and optimizers queue work; NULL on the host */
    void *stream;
    mf_fault *fault;   /* memory on the device, shared by all graphs of this device; NULL on
                        * the host */
    const void **told; /* reasons for running on the host that are already in the log */
    int n_told;
    int64_t fallbacks; /* how often a node has run on the host since the device was opened */
    struct mf_code *codes; /* images of plugins, which stay loaded until the device is
                            * closed (device/code.h) */
    bool host_ops_refused; /* a graph with a node that would run on the host is an error */
};

/* The functions that the program passes to a backend. */
typedef struct mf_backend_host {
    uint32_t size;
    const mf_kernels *kernels; /* the host's kernel set */
    mf_kctx context;           /* context of the host: parallel, rng_block, threads */
} mf_backend_host;

#define MF_BACKEND_MAGIC UINT64_C(0x646e656b6361626d) /* the bytes "mbackend" */

/* Exported as `moefw_backend`. A backend belongs to one version of moefw; other versions
 * refuse it. */
typedef struct mf_backend {
    uint64_t magic;
    uint32_t size, device_size, kernels_size;
    const char *version; /* must be MOEFW_VERSION */
    const char *name;
    /* Sets ops, self and kernels of *d for device number `index`. On failure returns a code,
     * and writes to text [size] the reason and what to install. */
    int (*open)(const mf_backend_host *host, int index, mf_device *d, char *text, size_t size);
    /* Writes line i, from 0, of a description to text [size]. The lines describe libraries and
     * devices, or say why there are none. Returns false if there is no line i. NULL: the
     * backend has no description. */
    bool (*describe)(int i, char *text, size_t size);
} mf_backend;

/* Returns MF_EDEP if the backend belongs to another version of moefw. */
int mf_device_judge(const mf_backend *backend);
/* Opens device `index` of a loaded backend, and creates its main stream and the memory of its
 * fault. MF_EDEP: the backend belongs to another version, or has no such device. */
int mf_device_open(const mf_backend *backend, int index, mf_device **ret);
void mf_device_close(mf_device *d); /* does nothing for NULL and for the host */

/* Whether the program can access the device's memory. */
static inline bool mf_device_is_host(const mf_device *d)
{
    return !d || d->ops->flags & MF_DEVICE_HOST_MEMORY;
}
/* Returns the name of the device's backend, such as "strict"; "cpu" for the host. */
const char *mf_device_name(const mf_device *d);
/* Returns the set of kernels to launch on d. like: the host set that a test requests, or NULL.
 * Returns NULL if the environment names no valid set (mf_backend_init returns the error). */
const mf_kernels *mf_device_kernels(mf_device *d, const mf_kernels *like);
/* Returns the rate of the device in gemms of this type, in FLOP per second; 0: not known. */
double mf_device_peak(mf_device *d, bool bf16);
/* Returns the bytes of the device's memory that are in use by any process, and its total bytes.
 * False: not known. */
bool mf_device_used(mf_device *d, size_t *ret_used, size_t *ret_total);
/* Returns the context for launches in the main stream. */
mf_kctx mf_device_context(const mf_device *d);

/* These functions call the table's functions with the main stream, or use plain memory on the
 * host. Errors are recorded. Memory is zeroed; on the host this also makes its pages resident
 * before the first step. */
int mf_device_alloc(mf_device *d, size_t bytes, void **ret);
void mf_device_free(mf_device *d, void *block);
int mf_device_alloc_host(mf_device *d, size_t bytes, void **ret); /* returns zeroed memory */
void mf_device_free_host(mf_device *d, void *block);
int mf_device_write(mf_device *d, void *to, const void *from_host, size_t bytes);
int mf_device_read(mf_device *d, void *to_host, const void *from, size_t bytes);
int mf_device_zero(mf_device *d, void *to, size_t bytes);
int mf_device_wait(mf_device *d); /* waits until all work in the main stream is done */
/* Like mf_device_write and mf_device_read, but wait until the copy is done. */
int mf_device_write_now(mf_device *d, void *to, const void *from_host, size_t bytes);
int mf_device_read_now(mf_device *d, void *to_host, const void *from, size_t bytes);
/* Records code as the error, with the device's text, and returns it. MF_OK records nothing. */
int mf_device_failed(mf_device *d, int code);
/* Marks an op without launch function, or a kernel that the device lacks, as a reason for
 * running on the host. Returns true the first time. */
bool mf_device_tell(mf_device *d, const void *reason);

#endif
