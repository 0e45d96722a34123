/* graph/device/device.h: where values live and kernels run.
 *
 * A device has memory, streams that do what is queued in them in order, and a set of kernels.
 * A backend (`backend_NAME.so`, found in the plugin folders when a run asks for it, never
 * linked) exports one constant, mf_backend, and fills a mf_device for each that is opened. The
 * host is a device as well: its memory is what the program sees, its functions are done when
 * they return, it needs no backend, and NULL stands for it.
 *
 * Core touches memory of a device through this table only. What is queued in a stream may run
 * any time until the host waits for it; the host's side of a queued copy must not change until
 * then. Functions that return int give MF_OK, or an error code and leave a text for `message`;
 * an error of queued work comes from the next synchronize. A device and all that was made with
 * it belong to one thread at a time; two devices share nothing.
 */
#ifndef MF_GRAPH_DEVICE_H
#define MF_GRAPH_DEVICE_H

#include <moefw/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernels/kernel.h"

typedef struct mf_device mf_device;

/* mf_device_ops.flags */
#define MF_DEVICE_HOST_MEMORY 1u /* the program sees its memory, and nothing is ever late */
#define MF_DEVICE_PACKS       2u /* its kernels have can_pack and pack_weights */

typedef struct mf_device_ops {
    uint32_t size;
    uint32_t flags;
    const char *name; /* "cpu", "cuda": as train.device names it */
    void (*close)(mf_device *d);
    /* Text of the last error of this device; never NULL. */
    const char *(*message)(mf_device *d);

    /* Memory, 64-byte aligned, contents undefined. free(NULL) is allowed; what is queued and
     * uses the block must be done. MF_ENOMEM: there is not that much. */
    int (*alloc)(mf_device *d, size_t bytes, void **ret);
    void (*free)(mf_device *d, void *block);
    /* Memory of the host for queued copies, which a device may reach directly. */
    int (*alloc_host)(mf_device *d, size_t bytes, void **ret);
    void (*free_host)(mf_device *d, void *block);
    int (*memory)(mf_device *d, size_t *ret_free, size_t *ret_total); /* bytes */

    /* Queued: host to device, device to host, within the device, one byte everywhere. */
    int (*write)(mf_device *d, void *stream, void *to, const void *from_host, size_t bytes);
    int (*read)(mf_device *d, void *stream, void *to_host, const void *from, size_t bytes);
    int (*copy)(mf_device *d, void *stream, void *to, const void *from, size_t bytes);
    int (*fill)(mf_device *d, void *stream, void *to, int byte, size_t bytes);

    /* Streams run at the same time, as far as events do not order them. An event stands for
     * what was queued in a stream up to its last record. */
    int (*stream_new)(mf_device *d, void **ret);
    void (*stream_free)(mf_device *d, void *stream);
    int (*event_new)(mf_device *d, void **ret);
    void (*event_free)(mf_device *d, void *event);
    int (*event_record)(mf_device *d, void *event, void *stream);
    int (*stream_wait)(mf_device *d, void *stream, void *event); /* queued */
    int (*event_wait)(mf_device *d, void *event);                /* by the host */
    int (*synchronize)(mf_device *d, void *stream);              /* NULL: all streams */

    /* For tests: the set of kernels that computes as this set of the host does, or for NULL as
     * its usual one. A NULL function: the device has one set. */
    const mf_kernels *(*kernels_like)(mf_device *d, const mf_kernels *host);
} mf_device_ops;

struct mf_device {
    const mf_device_ops *ops;
    void *self;                /* the backend's */
    const mf_kernels *kernels; /* NULL: the set of the host that is in force */
    void *stream;              /* in which graphs, stores and optimizers queue; NULL: host */
    mf_fault *fault;           /* device memory, of all graphs that run here; NULL: host */
    const void **told;         /* ops without launch functions that the log has named */
    int n_told;
    int64_t fallbacks; /* nodes that ran on the host, since it was opened */
};

/* What a backend gets of the program. */
typedef struct mf_backend_host {
    uint32_t size;
    const mf_kernels *kernels; /* of the host, the set in force */
    mf_kctx context;           /* of the host: parallel, rng_block, threads */
} mf_backend_host;

#define MF_BACKEND_MAGIC UINT64_C(0x646e656b6361626d) /* "mbackend" */

/* Exported as `moefw_backend`. It belongs to one version of moefw: a program refuses others. */
typedef struct mf_backend {
    uint64_t magic;
    uint32_t size, device_size, kernels_size;
    const char *version; /* MOEFW_VERSION */
    const char *name;
    /* Fills ops, self and kernels of *d for device number `index`. On failure returns a code
     * and writes why, and what to install, to text [size]. */
    int (*open)(const mf_backend_host *host, int index, mf_device *d, char *text, size_t size);
} mf_backend;

/* Opens device `index` of a backend that has been found: its main stream, its fault word.
 * MF_EDEP: the backend belongs to another version, or has no such device. */
int mf_device_open(const mf_backend *backend, int index, mf_device **ret);
void mf_device_close(mf_device *d); /* NULL and the host: nothing */

/* The program sees the memory. */
static inline bool mf_device_is_host(const mf_device *d)
{
    return !d || d->ops->flags & MF_DEVICE_HOST_MEMORY;
}
/* "cpu", "strict" */
const char *mf_device_name(const mf_device *d);
/* The set of kernels to launch there; like: a host set that a test asks for, or NULL. NULL:
 * MOEFW_KERNELS is wrong (mf_backend_init says how). */
const mf_kernels *mf_device_kernels(mf_device *d, const mf_kernels *like);
/* The context of launches in the main stream. */
mf_kctx mf_device_context(const mf_device *d);

/* The table's functions in the main stream; on the host, plain memory. Errors are recorded.
 * Zeroed memory, on the host touched, so that no step pays for the first touch of a page. */
int mf_device_alloc(mf_device *d, size_t bytes, void **ret);
void mf_device_free(mf_device *d, void *block);
int mf_device_alloc_host(mf_device *d, size_t bytes, void **ret); /* zeroed */
void mf_device_free_host(mf_device *d, void *block);
int mf_device_write(mf_device *d, void *to, const void *from_host, size_t bytes);
int mf_device_read(mf_device *d, void *to_host, const void *from, size_t bytes);
int mf_device_zero(mf_device *d, void *to, size_t bytes);
int mf_device_wait(mf_device *d); /* until the main stream has run dry */
/* The first two, and wait. */
int mf_device_write_now(mf_device *d, void *to, const void *from_host, size_t bytes);
int mf_device_read_now(mf_device *d, void *to_host, const void *from, size_t bytes);
/* Records code as the error, with the device's text; returns it. MF_OK stays. */
int mf_device_failed(mf_device *d, int code);
/* Notes an op that runs on the host for lack of a launch function: true the first time. */
bool mf_device_tell(mf_device *d, const void *op);

#endif
