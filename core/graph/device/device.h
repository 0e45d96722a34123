/* graph/device/device.h: devices, in whose memory values are and on which kernels run.
 *
 * A device has memory, streams that execute queued work in order, and a set of kernels. A
 * backend (`backend_NAME.so`, found in the plugin folders when a run names it, never linked)
 * exports one constant, moefw_backend, whose function fills an mf_device for each device that
 * is opened. The host is a device, too: the program can read its memory, its functions are done
 * when they return, it needs no backend, and NULL stands for it.
 *
 * Core accesses memory of a device only through this table. Queued work may run at any time
 * until the host waits for it; host memory of a queued copy must not change before. Functions
 * that return int return MF_OK, or an error code with a text for `message`; an error of queued
 * work is returned by the next synchronize. A device and everything made with it belong to one
 * thread at a time; two devices share nothing.
 *
 * A graph exchanges two copies with its device in a run (graph/exchange.c): inputs, live
 * scalars, the key of random numbers and the optimizer's numbers go there in one; losses,
 * statistics, the sum of squares and the first fault come back in one. Nothing is read between
 * launches. Ops of core only launch kernels. An op of a plugin brings launch functions for a
 * device (mf_opdef.launch) or kernels as data; one without them, or that needs a kernel which
 * the device lacks (graph/unsupported.c), runs on the host with copies around it
 * (graph/fallback.c): the log says this once, and device.strict refuses it. */
#ifndef MF_GRAPH_DEVICE_H
#define MF_GRAPH_DEVICE_H

#include <moefw/op.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernel.h"

typedef struct mf_device mf_device;

/* mf_device_ops.flags */
/* the program can access its memory, and work is done when a function returns */
#define MF_DEVICE_HOST_MEMORY 1u
/* its kernels of attention are faster if queries, keys and values are bf16: graphs that compute
 * in bf16 convert them */
#define MF_DEVICE_BF16_ATTENTION 2u

typedef struct mf_device_ops {
    uint32_t size;
    uint32_t flags;
    const char *name; /* "cpu", "cuda": train.device without the number of the device */
    void (*close)(mf_device *d);
    /* Text of the last error of this device; never NULL. */
    const char *(*message)(mf_device *d);

    /* Memory, 64-byte aligned, with undefined contents. free(NULL) is allowed; queued work that
     * uses the block must be done. MF_ENOMEM: there is not enough. */
    int (*alloc)(mf_device *d, size_t bytes, void **ret);
    void (*free)(mf_device *d, void *block);
    /* Host memory for queued copies, which a device may access directly. */
    int (*alloc_host)(mf_device *d, size_t bytes, void **ret);
    void (*free_host)(mf_device *d, void *block);
    int (*memory)(mf_device *d, size_t *ret_free, size_t *ret_total); /* bytes */

    /* These queue work: copies from host to device, from device to host, and within the device;
     * `fill` sets all bytes to one value. */
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
    int (*stream_wait)(mf_device *d, void *stream, void *event); /* queued */
    int (*event_wait)(mf_device *d, void *event);                /* by the host */
    int (*synchronize)(mf_device *d, void *stream);              /* NULL: all streams */

    /* For tests: returns the set of kernels that computes like this set of the host, or the
     * device's usual set if `host` is NULL. The pointer is NULL if the device has only
     * one set. */
    const mf_kernels *(*kernels_like)(mf_device *d, const mf_kernels *host);

    /* Recordings: what is queued in a stream between begin and end is not executed; `replay`
     * queues all of it again, as often as it is called. In between only kernels are launched,
     * and copies and fills within the device are queued. All four are NULL if the device does
     * not record. After a failed end there is no recording, and nothing was executed. */
    int (*record_begin)(mf_device *d, void *stream);
    int (*record_end)(mf_device *d, void *stream, void **ret);
    int (*replay)(mf_device *d, void *stream, void *recording);
    void (*recording_free)(mf_device *d, void *recording); /* its replays must be done */

    /* Kernels of plugins (mf_device_code). All four are NULL if the device takes none.
     * code_load: MF_EDEP: the image has nothing for this device; MF_EPLUGIN: it is broken.
     * code_kernel loads a kernel of it, since a launch in a recording may not; its codes are
     * those of code_load, and MF_EPLUGIN: there is none of this name. code_launch queues one
     * launch with a copy of args. code_free: no launch may be queued. */
    int (*code_load)(mf_device *d, const void *image, void **ret);
    int (*code_kernel)(mf_device *d, void *code, const char *name, void **ret);
    int (*code_launch)(mf_device *d, void *stream, void *kernel, const mf_kernel_launch *l,
                       const mf_kernel_args *args);
    void (*code_free)(mf_device *d, void *code);

    /* FLOP a second of dense gemms of this type that the device can do by its data sheet or its
     * clock; 0: not known. NULL: as 0. */
    double (*peak)(mf_device *d, bool bf16);

    /* Milliseconds of the device between two events of one stream, both passed. NULL: events
     * have no times. */
    int (*event_elapsed)(mf_device *d, void *from, void *to, double *ret_ms);
} mf_device_ops;

struct mf_device {
    const mf_device_ops *ops;
    void *self;                /* data of the backend */
    const mf_kernels *kernels; /* NULL: the host's kernel set */
    /* main stream, in which graphs, stores and optimizers queue work; NULL: host */
    void *stream;
    mf_fault *fault;   /* device memory, shared by all graphs on this device; NULL: host */
    const void **told; /* reasons for running on the host that were logged already */
    int n_told;
    int64_t fallbacks; /* how often a node has run on the host since the device was opened */
    struct mf_code *codes; /* of plugins, loaded until the device is closed (device/code.h) */
    bool host_ops_refused; /* a graph with a node that would run on the host is an error */
};

/* The functions that the program gives a backend. */
typedef struct mf_backend_host {
    uint32_t size;
    const mf_kernels *kernels; /* the host's kernel set */
    mf_kctx context;           /* of the host: parallel, rng_block, threads */
} mf_backend_host;

#define MF_BACKEND_MAGIC UINT64_C(0x646e656b6361626d) /* "mbackend" */

/* Exported as `moefw_backend`. A backend belongs to one version of moefw; other versions
 * refuse it. */
typedef struct mf_backend {
    uint64_t magic;
    uint32_t size, device_size, kernels_size;
    const char *version; /* MOEFW_VERSION */
    const char *name;
    /* Fills ops, self and kernels of *d for device number `index`. On failure returns a code
     * and writes the reason, and what to install, to text [size]. */
    int (*open)(const mf_backend_host *host, int index, mf_device *d, char *text, size_t size);
    /* Writes line i, from 0, about libraries and devices, or why there are none, to text
     * [size]. Returns false if there is no such line. NULL: there is nothing to tell. */
    bool (*describe)(int i, char *text, size_t size);
} mf_backend;

/* MF_EDEP: the backend belongs to another version of moefw. */
int mf_device_judge(const mf_backend *backend);
/* Opens device `index` of a loaded backend, and creates its main stream and the memory of its
 * fault. MF_EDEP: the backend belongs to another version, or has no such device. */
int mf_device_open(const mf_backend *backend, int index, mf_device **ret);
void mf_device_close(mf_device *d); /* NULL and the host: does nothing */

/* Whether the program can access the device's memory. */
static inline bool mf_device_is_host(const mf_device *d)
{
    return !d || d->ops->flags & MF_DEVICE_HOST_MEMORY;
}
/* Returns the name of the device's backend, such as "strict"; "cpu" for the host. */
const char *mf_device_name(const mf_device *d);
/* Returns the set of kernels to launch on d. like: the host set that a test asks for, or NULL.
 * NULL if the environment names no valid set (mf_backend_init returns the error). */
const mf_kernels *mf_device_kernels(mf_device *d, const mf_kernels *like);
/* The rate of the device in gemms of this type, FLOP a second; 0: not known. */
double mf_device_peak(mf_device *d, bool bf16);
/* Bytes of the device's memory: those in use, by whomever, and all. False: not known. */
bool mf_device_used(mf_device *d, size_t *ret_used, size_t *ret_total);
/* The context for launches in the main stream. */
mf_kctx mf_device_context(const mf_device *d);

/* These call the table's functions with the main stream, or use plain memory on the host.
 * Errors are recorded. Memory is zeroed; on the host this also makes its pages resident before
 * the first step. */
int mf_device_alloc(mf_device *d, size_t bytes, void **ret);
void mf_device_free(mf_device *d, void *block);
int mf_device_alloc_host(mf_device *d, size_t bytes, void **ret); /* zeroed */
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
