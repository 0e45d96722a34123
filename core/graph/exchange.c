/* graph/exchange.c: copies between host and device in a run. One copy before the run sends
 * inputs, live scalars, the key of random numbers and the caller's payload. One copy after the
 * run returns the fault, small kept values and the payload.
 *
 * Between launches the host reads nothing, except for fallbacks. A copy to the device is made
 * from one of two staging blocks, so inputs can be filled again while the copy waits. A block
 * is reused after its event has signalled that its copy is done. On the CPU, host and device
 * share all memory, and nothing is copied, except to slots if there are several. */
#include "graph/internal.h"

#include <string.h>

enum { KEY_BYTES = 64, FAULT_BYTES = 64, TURNS = 2 };

static size_t pad(size_t bytes)
{
    return bytes == 0 ? 64 : (bytes + 63) & ~(size_t)63;
}

static size_t bytes_of(const mf_tensor *t)
{
    return mf_shape_bytes(t->shape, t->dtype);
}

/* Whether t is a leaf that the host fills before each run. */
static bool travels(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_LIVE || (t->kind == MF_TENSOR_INPUT && !mf_input_stays(t));
}

/* Whether t is a leaf whose values stay on the device from run to run. */
static bool stays(const mf_tensor *t)
{
    return t->kind == MF_TENSOR_CONST || (t->kind == MF_TENSOR_INPUT && mf_input_stays(t));
}

/* ---- memory ---- */

static size_t out_begin(const mf_graph *g)
{
    return FAULT_BYTES + pad(g->options.payload.out);
}

int64_t mf_exchange_reserve(mf_graph *g, size_t bytes)
{
    mf_exchange *x = &g->exchange;
    if (x->out_bytes == 0) x->out_bytes = out_begin(g);
    const size_t at = x->out_bytes;
    x->out_bytes += pad(bytes);
    x->small_bytes += pad(bytes);
    return (int64_t)at;
}

/* Sets the offsets of the leaves that are sent before each run. They follow the key and
 * the payload. */
static void lay_out(mf_graph *g)
{
    mf_exchange *x = &g->exchange;
    x->in_bytes = KEY_BYTES + pad(g->options.payload.in);
    if (x->out_bytes == 0) x->out_bytes = out_begin(g);
    for (int i = 0; g->options.device && i < g->n_tensors; i++) {
        mf_tensor *t = g->tensors[i];
        if (!travels(t)) continue;
        t->at = (int64_t)x->in_bytes;
        x->in_bytes += pad(bytes_of(t));
    }
}

static int new_slots(mf_graph *g)
{
    mf_exchange *x = &g->exchange;
    void *slot = NULL;
    x->slots = g->options.payload.slots > 0 ? g->options.payload.slots : 1;
    if (!g->options.device && x->slots == 1) return MF_OK;
    const int rc =
        mf_device_alloc_host(g->options.device, (size_t)(x->slots + 1) * x->out_bytes, &slot);
    x->slot = slot;
    return rc;
}

static int new_staging(mf_graph *g)
{
    mf_exchange *x = &g->exchange;
    mf_device *d = g->options.device;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < TURNS; i++) {
        void *staging = NULL;
        rc = mf_device_alloc_host(d, x->in_bytes, &staging);
        x->staging[i] = staging;
        if (rc == MF_OK) rc = mf_device_failed(d, d->ops->event_new(d, &x->sent[i]));
    }
    x->payload = mf_graph_alloc(g, g->options.payload.in + 1);
    return rc == MF_OK && !x->payload ? MF_ENOMEM : rc;
}

/* Allocates memory for constants and for inputs that stay, and copies their present values to
 * the device, once. */
static int new_fixed(mf_graph *g)
{
    mf_device *d = g->options.device;
    size_t bytes = 0;
    void *fixed = NULL;
    for (int i = 0; i < g->n_tensors; i++)
        if (stays(g->tensors[i])) bytes += pad(bytes_of(g->tensors[i]));
    int rc = bytes ? mf_device_alloc(d, bytes, &fixed) : MF_OK;
    g->fixed = fixed;
    bytes = 0;
    for (int i = 0; rc == MF_OK && i < g->n_tensors; i++) {
        mf_tensor *t = g->tensors[i];
        if (!stays(t)) continue;
        t->data = g->fixed + bytes;
        bytes += pad(bytes_of(t));
        rc = mf_device_write(d, t->data, t->host, bytes_of(t));
    }
    return rc == MF_OK && bytes ? mf_device_wait(d) : rc;
}

int mf_exchange_new(mf_graph *g)
{
    mf_exchange *x = &g->exchange;
    void *block = NULL;
    lay_out(g);
    int rc = mf_device_alloc(g->options.device, x->in_bytes + x->out_bytes, &block);
    x->block = block;
    if (rc == MF_OK) rc = new_slots(g);
    if (rc != MF_OK) return rc;
    if (!g->options.device) {
        x->payload = x->block + KEY_BYTES;
        return MF_OK;
    }
    for (int i = 0; i < g->n_tensors; i++)
        if (travels(g->tensors[i])) g->tensors[i]->data = x->block + g->tensors[i]->at;
    rc = new_staging(g);
    return rc == MF_OK ? new_fixed(g) : rc;
}

void mf_exchange_free(mf_graph *g)
{
    mf_exchange *x = &g->exchange;
    mf_device *d = g->options.device;
    mf_device_free(d, x->block);
    mf_device_free_host(d, x->slot);
    mf_device_free(d, g->fixed);
    mf_device_free_host(d, g->staging);
    for (int i = 0; i < TURNS; i++) {
        mf_device_free_host(d, x->staging[i]);
        if (x->sent[i]) d->ops->event_free(d, x->sent[i]);
    }
}

/* ---- before and after the launches ---- */

/* Copies the values to a staging block, because a queued copy's source must not change. */
static int fill_staging(mf_graph *g, const mf_run *run, char *to)
{
    const mf_draw_key key = {run->seed, run->step};
    memcpy(to, &key, sizeof key);
    if (g->options.payload.in)
        memcpy(to + KEY_BYTES, g->exchange.payload, g->options.payload.in);
    for (int i = 0; i < g->n_tensors; i++) {
        const mf_tensor *t = g->tensors[i];
        if (travels(t)) memcpy(to + t->at, t->host, bytes_of(t));
    }
    return MF_OK;
}

static int send_refreshed(mf_graph *g)
{
    mf_device *d = g->options.device;
    bool any = false;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < g->n_tensors; i++) {
        mf_tensor *t = g->tensors[i];
        if (!t->refreshed) continue;
        rc = mf_device_write(d, t->data, t->host, bytes_of(t));
        t->refreshed = false;
        any = true;
    }
    return rc == MF_OK && any ? mf_device_wait(d) : rc;
}

static int send(mf_graph *g, const mf_run *run)
{
    mf_exchange *x = &g->exchange;
    mf_device *d = g->options.device;
    const uint64_t number = x->sends++;
    const int turn = (int)(number % TURNS);
    int rc = MF_OK;
    if (number >= TURNS + x->read)
        rc = mf_device_failed(d, d->ops->event_wait(d, x->sent[turn]));
    if (rc == MF_OK) rc = fill_staging(g, run, x->staging[turn]);
    if (rc == MF_OK) rc = mf_device_write(d, x->block, x->staging[turn], x->in_bytes);
    if (rc == MF_OK)
        rc = mf_device_failed(d, d->ops->event_record(d, x->sent[turn], d->stream));
    return rc == MF_OK ? send_refreshed(g) : rc;
}

int mf_exchange_send(mf_graph *g, const mf_run *run)
{
    mf_exchange *x = &g->exchange;
    mf_device *d = g->options.device;
    int rc = MF_OK;
    g->runs++;
    for (int i = 0; i < g->n_lives; i++)
        *g->lives[i].to = (float)*g->lives[i].from;
    g->launch.key = (const mf_draw_key *)(const void *)x->block;
    if (!d) {
        mf_fault *fault = (mf_fault *)(void *)mf_exchange_out(g);
        *(mf_draw_key *)(void *)x->block = (mf_draw_key){run->seed, run->step};
        *fault = (mf_fault){0};
        g->launch.fault = fault;
        return MF_OK;
    }
    g->launch.fault = d->fault;
    g->launch.stream = d->stream;
    for (int i = 0; rc == MF_OK && i < g->n_stores; i++)
        rc = mf_store_flush(g->stores[i]);
    return rc == MF_OK ? send(g, run) : rc;
}

void mf_exchange_finish(mf_graph *g, bool recorded)
{
    mf_device *d = g->options.device;
    for (int i = 0; i < g->n_stores; i++)
        mf_store_changed(g->stores[i]);
    if (!d || recorded) return;
    const mf_kctx x = mf_device_context(d);
    MF_RUN(g->launch.exec.kernels, &x, copy4, .dim = {1, 1, 1, sizeof(mf_fault) / 4},
           .stride_in = {[3] = 1}, .stride_out = {[3] = 1}, .in = d->fault,
           .out = mf_exchange_out(g));
}

/* ---- results ---- */

static char *slot_of(const mf_graph *g, int slot)
{
    return g->exchange.slot ? g->exchange.slot + (size_t)slot * g->exchange.out_bytes
                            : mf_exchange_out(g);
}

static int check_slot(const mf_graph *g, int slot)
{
    if (g && g->finished && slot >= 0 && slot < g->exchange.slots) return MF_OK;
    return mf_fail(MF_EINVAL, "slot %d of a graph that has %d", slot,
                   g ? g->exchange.slots : 0);
}

static int fetch(mf_graph *g, int slot)
{
    if (!g->exchange.slot) return MF_OK;
    return mf_device_read(g->options.device, slot_of(g, slot), mf_exchange_out(g),
                          g->exchange.out_bytes);
}

int mf_graph_fetch(mf_graph *g, int slot)
{
    int rc = check_slot(g, slot);
    if (rc == MF_OK) rc = fetch(g, slot);
    if (rc != MF_OK) return rc;
    g->exchange.newest = slot;
    g->exchange.newest_run = g->runs;
    return MF_OK;
}

static const mf_fault *fault_of(const mf_graph *g, int slot)
{
    return (const mf_fault *)(const void *)slot_of(g, slot);
}

/* If the slot holds the results of the last run, copies them to the slot of views, so views
 * need not read the results from the device. */
static void take_view(mf_graph *g, int slot)
{
    mf_exchange *x = &g->exchange;
    if (x->newest != slot || x->newest_run != g->runs || x->view_run == g->runs) return;
    memcpy(slot_of(g, x->slots), slot_of(g, slot), x->out_bytes);
    x->view_run = g->runs;
}

static int wait_for_all(mf_graph *g)
{
    const int rc = mf_device_wait(g->options.device);
    if (rc == MF_OK) g->exchange.read = g->exchange.sends;
    return rc;
}

int mf_graph_collect(mf_graph *g, int slot)
{
    int rc = check_slot(g, slot);
    if (rc == MF_OK) rc = wait_for_all(g);
    if (rc != MF_OK || !g->options.device) return rc;
    rc = mf_graph_judge_fault(g, fault_of(g, slot));
    if (rc == MF_OK) take_view(g, slot);
    return rc;
}

/* Reads the results of the last run into the slot of views, which is the last one. */
static int look(mf_graph *g)
{
    if (g->exchange.view_run == g->runs) return MF_OK;
    int rc = fetch(g, g->exchange.slots);
    if (rc == MF_OK) rc = wait_for_all(g);
    if (rc == MF_OK) g->exchange.view_run = g->runs;
    return rc;
}

int mf_graph_wait(mf_graph *g)
{
    if (!g || !g->options.device) return MF_OK;
    const int rc = look(g);
    return rc == MF_OK ? mf_graph_judge_fault(g, fault_of(g, g->exchange.slots)) : rc;
}

/* A fault is not reported here: mf_graph_wait or mf_graph_collect reports it. */
const char *mf_exchange_view(mf_graph *g)
{
    if (!g->options.device) return mf_exchange_out(g);
    const int slot = g->exchange.slots;
    return look(g) == MF_OK && fault_of(g, slot)->kind == MF_FAULT_NONE ? slot_of(g, slot)
                                                                        : NULL;
}

const void *mf_tensor_collected(const mf_tensor *t, int slot)
{
    const mf_tensor *owner = t ? mf_owner(t) : NULL;
    if (!owner || check_slot(owner->graph, slot) != MF_OK) return NULL;
    if (owner->kind != MF_TENSOR_VALUE || owner->at < 0) return mf_tensor_host(t);
    return slot_of(owner->graph, slot) + owner->at;
}

const void *mf_graph_returned(const mf_graph *g, int slot)
{
    return check_slot(g, slot) == MF_OK ? slot_of(g, slot) + FAULT_BYTES : NULL;
}

void *mf_graph_returned_at(const mf_graph *g)
{
    return g->exchange.block ? mf_exchange_out(g) + FAULT_BYTES : NULL;
}

const void *mf_graph_sent_at(const mf_graph *g)
{
    return g->exchange.block ? g->exchange.block + KEY_BYTES : NULL;
}

void *mf_graph_sent(const mf_graph *g)
{
    return g->exchange.payload;
}
