/* graph/device/device.c: opens devices, and queues copies in their main stream. On the host
 * these functions use plain memory: nothing is queued and nothing waits. */
#include "graph/device/device.h"

#include <moefw/version.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "base/rng.h"
#include "graph/device/code.h"
#include "graph/graph.h"

/* ---- opening ---- */

static const mf_device *host_device(void)
{
    static const mf_device_ops ops = {
        .size = sizeof ops, .flags = MF_DEVICE_HOST_MEMORY, .name = "cpu"};
    static const mf_device host = {.ops = &ops};
    return &host;
}

int mf_device_judge(const mf_backend *b)
{
    if (b->magic != MF_BACKEND_MAGIC || b->size != sizeof *b ||
        b->device_size != sizeof(mf_device_ops) || b->kernels_size != sizeof(mf_kernels) ||
        strcmp(b->version, MOEFW_VERSION) != 0)
        return mf_fail(MF_EDEP,
                       "the backend belongs to another version of moefw than " MOEFW_VERSION);
    return MF_OK;
}

/* Checks that the set has the kernels that core launches outside of ops. Kernels of the host
 * cannot replace these. */
static int judge_kernels(const mf_kernels *k)
{
    if (k->copy4 && k->map2 && k->set && k->cast && k->sumsq) return MF_OK;
    return mf_fail(MF_EDEP,
                   "the backend lacks one of the kernels copy4, map2, set, cast, sumsq");
}

/* Creates the main stream and the memory of the fault, which the backend does not create. */
static int equip(mf_device *d)
{
    void *fault = NULL;
    int rc = d->ops->stream_new(d, &d->stream);
    if (rc != MF_OK) return mf_device_failed(d, rc);
    rc = mf_device_alloc(d, sizeof *d->fault, &fault);
    d->fault = fault;
    return rc;
}

int mf_device_open(const mf_backend *backend, int index, mf_device **ret)
{
    char text[512] = "";
    int rc = mf_device_judge(backend);
    const mf_kernels *kernels = rc == MF_OK ? mf_backend_kernels() : NULL;
    if (!kernels) return rc == MF_OK ? mf_backend_init() : rc;
    const mf_backend_host host = {
        .size = sizeof host, .kernels = kernels, .context = mf_device_context(NULL)};
    mf_device *d = mf_alloc(1, sizeof *d);
    if (!d) return MF_ENOMEM;
    rc = backend->open(&host, index, d, text, sizeof text);
    if (rc != MF_OK) {
        mf_free(d);
        return mf_fail(rc, "%s", text);
    }
    rc = d->kernels ? judge_kernels(d->kernels) : MF_OK;
    if (rc == MF_OK) rc = equip(d);
    if (rc != MF_OK) {
        mf_device_close(d);
        return rc;
    }
    *ret = d;
    return MF_OK;
}

void mf_device_close(mf_device *d)
{
    if (mf_device_is_host(d)) return;
    mf_codes_free(d);
    if (d->fault) d->ops->free(d, d->fault);
    if (d->stream) d->ops->stream_free(d, d->stream);
    d->ops->close(d);
    mf_free(d->told);
    mf_free(d);
}

const char *mf_device_name(const mf_device *d)
{
    return d ? d->ops->name : host_device()->ops->name;
}

const mf_kernels *mf_device_kernels(mf_device *d, const mf_kernels *like)
{
    if (mf_device_is_host(d)) return like ? like : mf_backend_kernels();
    return d->ops->kernels_like ? d->ops->kernels_like(d, like) : d->kernels;
}

double mf_device_peak(mf_device *d, bool bf16)
{
    return !mf_device_is_host(d) && d->ops->peak ? d->ops->peak(d, bf16) : 0;
}

bool mf_device_used(mf_device *d, size_t *ret_used, size_t *ret_total)
{
    size_t free = 0;
    *ret_used = *ret_total = 0;
    if (mf_device_is_host(d) || !d->ops->memory) return false;
    if (d->ops->memory(d, &free, ret_total) != MF_OK || free > *ret_total) return false;
    *ret_used = *ret_total - free;
    return true;
}

mf_kctx mf_device_context(const mf_device *d)
{
    return (mf_kctx){.parallel = mf_parallel,
                     .rng_block = mf_rng_block,
                     .threads = mf_parallel_threads(),
                     .fault = d ? d->fault : NULL,
                     .stream = d ? d->stream : NULL};
}

/* ---- copies and memory ---- */

int mf_device_failed(mf_device *d, int code)
{
    return code == MF_OK ? MF_OK
                         : mf_fail(code, "device %s: %s", d->ops->name, d->ops->message(d));
}

int mf_device_alloc(mf_device *d, size_t bytes, void **ret)
{
    if (mf_device_is_host(d)) {
        *ret = mf_alloc(bytes, 1);
        return *ret ? MF_OK : MF_ENOMEM;
    }
    int rc = d->ops->alloc(d, bytes, ret);
    if (rc == MF_OK) rc = d->ops->fill(d, d->stream, *ret, 0, bytes);
    return mf_device_failed(d, rc);
}

void mf_device_free(mf_device *d, void *block)
{
    if (mf_device_is_host(d))
        mf_free(block);
    else if (block) {
        (void)d->ops->synchronize(d, d->stream); /* launches may still use the block */
        d->ops->free(d, block);
    }
}

int mf_device_alloc_host(mf_device *d, size_t bytes, void **ret)
{
    if (mf_device_is_host(d)) return mf_device_alloc(d, bytes, ret);
    const int rc = d->ops->alloc_host(d, bytes, ret);
    if (rc == MF_OK) memset(*ret, 0, bytes);
    return mf_device_failed(d, rc);
}

void mf_device_free_host(mf_device *d, void *block)
{
    if (mf_device_is_host(d))
        mf_free(block);
    else if (block) {
        (void)d->ops->synchronize(d, d->stream);
        d->ops->free_host(d, block);
    }
}

int mf_device_write(mf_device *d, void *to, const void *from_host, size_t bytes)
{
    if (bytes == 0) return MF_OK;
    if (!mf_device_is_host(d))
        return mf_device_failed(d, d->ops->write(d, d->stream, to, from_host, bytes));
    memcpy(to, from_host, bytes);
    return MF_OK;
}

int mf_device_read(mf_device *d, void *to_host, const void *from, size_t bytes)
{
    if (bytes == 0) return MF_OK;
    if (!mf_device_is_host(d))
        return mf_device_failed(d, d->ops->read(d, d->stream, to_host, from, bytes));
    memcpy(to_host, from, bytes);
    return MF_OK;
}

int mf_device_zero(mf_device *d, void *to, size_t bytes)
{
    if (bytes == 0) return MF_OK;
    if (!mf_device_is_host(d))
        return mf_device_failed(d, d->ops->fill(d, d->stream, to, 0, bytes));
    memset(to, 0, bytes);
    return MF_OK;
}

int mf_device_wait(mf_device *d)
{
    return mf_device_is_host(d) ? MF_OK
                                : mf_device_failed(d, d->ops->synchronize(d, d->stream));
}

int mf_device_write_now(mf_device *d, void *to, const void *from_host, size_t bytes)
{
    const int rc = mf_device_write(d, to, from_host, bytes);
    return rc == MF_OK ? mf_device_wait(d) : rc;
}

int mf_device_read_now(mf_device *d, void *to_host, const void *from, size_t bytes)
{
    const int rc = mf_device_read(d, to_host, from, bytes);
    return rc == MF_OK ? mf_device_wait(d) : rc;
}

bool mf_device_tell(mf_device *d, const void *reason)
{
    for (int i = 0; i < d->n_told; i++)
        if (d->told[i] == reason) return false;
    const size_t n = (size_t)d->n_told;
    const void **more = mf_realloc(d->told, n * sizeof *more, (n + 1) * sizeof *more);
    if (!more) return true;
    more[n] = reason;
    d->told = more;
    d->n_told++;
    return true;
}
