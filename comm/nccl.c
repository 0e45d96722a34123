/* comm/nccl.c: the communicator module of NCCL, for ranks that have a GPU each.
 *
 * NCCL only moves bytes between the memories of devices; it adds no values. The program
 * computes the sums, and its values are in host memory, so each transfer is copied to the
 * device and back. The communicator does not block: this module polls NCCL until a transfer is
 * finished, so the program's timeouts detect a lost peer. NCCL allows no other call while it
 * issues a group. Transfers that begin meanwhile wait in a queue, whose order is the same on
 * all ranks. */
#include <cuda_runtime_api.h>
#include <moefw/version.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "join.h"
#include "comm/table.h"

enum { OPEN_SECONDS = 120, CLOSE_SECONDS = 60, ALIGNED = 256 };

typedef enum stage { QUEUED, ISSUED, MOVING, MOVED } stage;

struct mf_comm {
    mf_join join;
    ncclComm_t comm;
    cudaStream_t moves, copies;
    int64_t chunk;
    mf_comm_wait *first, *last; /* queue: only the first transfer may be issued */
    mf_comm_wait *idle;
    mf_comm_wait *all; /* all transfers, idle or not */
    bool broken;       /* a call has failed; only closing is still possible */
};

struct mf_comm_wait {
    mf_comm_wait *next, *next_of_all;
    stage stage;
    cudaEvent_t moved;
    int32_t n_send, n, room; /* numbers of pieces; the pieces to send are first */
    mf_comm_piece *piece;
    char *device; /* [bytes] */
    int64_t bytes;
};

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){0, 200000}, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- requests to end from other ranks ---- */

/* Returns nonzero if a rank is gone. Does not return if a rank has ended all ranks. */
static int look(mf_comm *c)
{
    int32_t code;
    const int what = mf_join_look(&c->join, &code);
    if (what <= 0) return what;
    mf_join_end_all(&c->join, code);
    if (c->comm) ncclCommAbort(c->comm);
    for (;;) /* the program treats _exit as an accident */
        syscall(SYS_exit_group, code);
}

/* The state of the communicator: 0 good, 1 failed, -1 an operation is not finished. */
static int state_of(mf_comm *c)
{
    ncclResult_t state = ncclSuccess;
    if (ncclCommGetAsyncError(c->comm, &state) != ncclSuccess) return 1;
    return state == ncclSuccess ? 0 : state == ncclInProgress ? -1 : 1;
}

/* Waits until a nonblocking call is done. Returns NULL, or the reason of a failure. */
static const char *settle(mf_comm *c, ncclResult_t rc, double seconds)
{
    const double until = now() + seconds;
    if (rc != ncclSuccess && rc != ncclInProgress) return ncclGetErrorString(rc);
    for (;;) {
        const int state = state_of(c);
        if (state == 0) return NULL;
        if (state > 0) return ncclGetLastError(c->comm);
        if (look(c) != 0) return "another rank has ended";
        if (now() > until) return "other ranks do not come";
        pause_a_little();
    }
}

/* ---- opening and closing ---- */

static void free_all(mf_comm *c)
{
    while (c->all) {
        mf_comm_wait *w = c->all;
        c->all = w->next_of_all;
        if (w->moved) cudaEventDestroy(w->moved);
        if (w->device) cudaFreeAsync(w->device, c->copies);
        free(w->piece);
        free(w);
    }
    if (c->moves) cudaStreamDestroy(c->moves);
    if (c->copies) cudaStreamDestroy(c->copies);
    mf_join_close(&c->join);
    free(c);
}

/* A launcher may show each rank only its own GPU (Slurm's --gpus-per-task). If it shows all
 * ranks the same GPU, NCCL reports an error. */
static bool has_own_device(int n)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return n == 1 && visible && visible[0] != '\0';
}

static int take_device(mf_comm *c, char *text, size_t size)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && c->join.place.node_ranks > n && !has_own_device(n)) {
        snprintf(text, size, "%s has %d ranks and %d GPUs; expected one for each rank",
                 c->join.place.host, c->join.place.node_ranks, n);
        return 1;
    }
    if (e == cudaSuccess) e = cudaSetDevice(has_own_device(n) ? 0 : c->join.local);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&c->moves, cudaStreamNonBlocking);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&c->copies, cudaStreamNonBlocking);
    if (e != cudaSuccess) snprintf(text, size, "CUDA: %s", cudaGetErrorString(e));
    return e != cudaSuccess;
}

static int begin(mf_comm *c, ncclUniqueId id, char *text, size_t size)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const ncclResult_t rc =
        ncclCommInitRankConfig(&c->comm, c->join.ranks, id, c->join.rank, &config);
    const char *why = settle(c, rc, OPEN_SECONDS);
    if (why) snprintf(text, size, "NCCL does not begin: %.160s", why);
    if (why && c->comm) ncclCommAbort(c->comm);
    return why != NULL;
}

static int open_comm(int64_t chunk, mf_comm_place *ret_place, mf_comm **ret, char *text,
                     size_t size)
{
    int32_t rank, ranks;
    ncclUniqueId id = {0};
    mf_join_find(&rank, &ranks);
    const ncclResult_t rc = rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
    mf_comm *c = calloc(1, sizeof *c);
    if (!c || rc != ncclSuccess) {
        snprintf(text, size, "%s", c ? ncclGetErrorString(rc) : "out of memory");
        free(c);
        return 1;
    }
    c->chunk = chunk;
    if (mf_join_open(&c->join, OPEN_SECONDS, &id, sizeof id, text, size) != 0) {
        free(c);
        return 1;
    }
    if (take_device(c, text, size) || begin(c, id, text, size)) {
        free_all(c);
        return 1;
    }
    *ret_place = c->join.place;
    *ret = c;
    return 0;
}

static void close_comm(mf_comm *c)
{
    /* A rank that ends first would look like a rank that is gone. */
    const bool left = !c->broken && mf_join_leave(&c->join, CLOSE_SECONDS) == 0;
    if (left && !settle(c, ncclCommFinalize(c->comm), CLOSE_SECONDS))
        ncclCommDestroy(c->comm);
    else
        ncclCommAbort(c->comm);
    free_all(c);
}

static void abort_all(mf_comm *c, int code)
{
    mf_join_end_all(&c->join, code);
    ncclCommAbort(c->comm);
}

/* ---- transfers ---- */

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Makes space for n pieces and `bytes` bytes. Memory is allocated and freed in the stream of
 * copies. The reason: cudaMalloc and cudaFree may wait for the whole device, and so for a
 * message whose peer is late. */
static bool grow(mf_comm *c, mf_comm_wait *w, int32_t n, int64_t bytes)
{
    if (n > w->room) {
        mf_comm_piece *more = realloc(w->piece, (size_t)n * sizeof *more);
        if (!more) return false;
        w->piece = more;
        w->room = n;
    }
    if (!w->moved && cudaEventCreateWithFlags(&w->moved, cudaEventDisableTiming) != cudaSuccess)
        return false;
    if (bytes <= w->bytes) return true;
    char *old = w->device;
    w->device = NULL;
    w->bytes = 0;
    if (old && cudaFreeAsync(old, c->copies) != cudaSuccess) return false;
    if (cudaMallocAsync((void **)&w->device, (size_t)bytes, c->copies) != cudaSuccess)
        return false;
    w->bytes = bytes;
    return true;
}

/* Copies pieces between host and device, and waits for the copies. This stream never waits for
 * a peer. */
static int copy(mf_comm *c, const mf_comm_wait *w, bool received)
{
    cudaError_t e = cudaSuccess;
    char *at = w->device;
    for (int32_t i = 0; e == cudaSuccess && i < w->n; i++) {
        const mf_comm_piece *p = &w->piece[i];
        const size_t n = (size_t)p->bytes;
        if (n > 0 && i < w->n_send && !received)
            e = cudaMemcpyAsync(at, p->data, n, cudaMemcpyHostToDevice, c->copies);
        if (n > 0 && i >= w->n_send && received)
            e = cudaMemcpyAsync(p->data, at, n, cudaMemcpyDeviceToHost, c->copies);
        at += aligned(p->bytes);
    }
    return e != cudaSuccess || cudaStreamSynchronize(c->copies) != cudaSuccess;
}

static bool failed(ncclResult_t rc)
{
    return rc != ncclSuccess && rc != ncclInProgress;
}

static ncclResult_t name_pieces(mf_comm *c, const mf_comm_wait *w)
{
    ncclResult_t rc = ncclSuccess;
    char *at = w->device;
    for (int32_t i = 0; i < w->n; i++) {
        const mf_comm_piece *p = &w->piece[i];
        for (int64_t done = 0; !failed(rc) && done < p->bytes; done += c->chunk) {
            const int64_t left = p->bytes - done;
            const size_t n = (size_t)(left < c->chunk ? left : c->chunk);
            rc = i < w->n_send ? ncclSend(at + done, n, ncclUint8, p->peer, c->comm, c->moves)
                               : ncclRecv(at + done, n, ncclUint8, p->peer, c->comm, c->moves);
        }
        at += aligned(p->bytes);
    }
    return rc;
}

static int issue(mf_comm *c, mf_comm_wait *w)
{
    ncclResult_t rc = ncclGroupStart();
    if (rc != ncclSuccess) return 1;
    rc = name_pieces(c, w);
    const ncclResult_t end = ncclGroupEnd();
    w->stage = ISSUED;
    return failed(rc) || failed(end);
}

/* Issues waiting transfers, as many as NCCL accepts. */
static int go_on(mf_comm *c)
{
    while (c->first) {
        mf_comm_wait *w = c->first;
        if (w->stage == QUEUED && issue(c, w)) return 1;
        const int state = state_of(c);
        if (state != 0) return state > 0;
        if (cudaEventRecord(w->moved, c->moves) != cudaSuccess) return 1;
        w->stage = MOVING;
        c->first = w->next;
    }
    return 0;
}

/* Returns an idle transfer, if possible one whose memory is large enough. */
static mf_comm_wait *take_idle(mf_comm *c, int64_t bytes)
{
    mf_comm_wait **at = &c->idle, *w;
    while (*at && (*at)->bytes < bytes)
        at = &(*at)->next;
    if (!*at) at = &c->idle;
    w = *at;
    if (w) {
        *at = w->next;
        return w;
    }
    w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->next_of_all = c->all;
    c->all = w;
    return w;
}

static int start(mf_comm *c, int32_t n_send, const mf_comm_piece *send, int32_t n_recv,
                 const mf_comm_piece *recv, mf_comm_wait **ret)
{
    int64_t bytes = 0;
    mf_comm_wait *w;
    /* A peer would take this message for the message that failed. */
    if (c->broken) return 1;
    c->broken = true; /* reset at the end of this function */
    for (int32_t i = 0; i < n_send; i++)
        bytes += aligned(send[i].bytes);
    for (int32_t i = 0; i < n_recv; i++)
        bytes += aligned(recv[i].bytes);
    w = take_idle(c, bytes);
    if (!w || !grow(c, w, n_send + n_recv, bytes)) return 1;
    w->next = NULL;
    w->n_send = n_send;
    w->n = n_send + n_recv;
    for (int32_t i = 0; i < w->n; i++)
        w->piece[i] = i < n_send ? send[i] : recv[i - n_send];
    w->stage = bytes > 0 ? QUEUED : MOVED;
    *ret = w;
    if (bytes > 0) {
        if (copy(c, w, false)) return 1;
        if (c->first)
            c->last->next = w;
        else
            c->first = w;
        c->last = w;
        if (go_on(c)) return 1;
    }
    c->broken = false;
    return 0;
}

/* Returns 0 if the transfer is done, 1 if it failed, -1 if it is not finished. */
static int ask(mf_comm *c, mf_comm_wait *w)
{
    if (w->stage == MOVED) return 0;
    if (look(c) != 0 || go_on(c) != 0) return 1;
    if (w->stage != MOVING) return -1;
    const cudaError_t e = cudaEventQuery(w->moved);
    if (e == cudaErrorNotReady) return state_of(c) > 0 ? 1 : -1;
    return e != cudaSuccess || copy(c, w, true);
}

static int test(mf_comm *c, mf_comm_wait *w, bool *ret_done)
{
    const int state = ask(c, w);
    *ret_done = state == 0;
    c->broken = c->broken || state > 0;
    if (state == 0) {
        w->next = c->idle;
        c->idle = w;
    }
    return state > 0;
}

/* NCCL does not report which piece of a group is missing. */
static bool waits_for(mf_comm_wait *w, int32_t peer)
{
    for (int32_t i = 0; i < w->n; i++)
        if (w->piece[i].peer == peer && w->piece[i].bytes > 0) return true;
    return false;
}

__attribute__((visibility("default"))) extern const mf_comm_table moefw_comm;
const mf_comm_table moefw_comm = {.magic = MF_COMM_MAGIC,
                                  .size = sizeof(mf_comm_table),
                                  .version = MOEFW_VERSION,
                                  .name = "nccl",
                                  .open = open_comm,
                                  .start = start,
                                  .test = test,
                                  .waits_for = waits_for,
                                  .abort = abort_all,
                                  .close = close_comm};
