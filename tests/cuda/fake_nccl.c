/* fake_nccl.c: replaces NCCL, and the CUDA functions that a communicator uses, for processes on
 * one machine. A message is a file in a folder whose name is the unique id.
 *
 * The library is slow on purpose. Communicators begin, groups are issued and messages move only
 * after random numbers of queries, and the pieces of a group move in a random order. After a
 * use that NCCL forbids, the process ends with status 98: a call while a group is being issued,
 * memory that is not on the device, a wait that could block. It ends with 97 if memory was
 * not freed.
 *
 *   MOEFW_FAKE_SEED         seed of the random numbers
 *   MOEFW_FAKE_NCCL_FAIL    the call of NCCL or CUDA with this number fails
 *   MOEFW_FAKE_NCCL_ASYNC   a peer fails during the group with this number
 *   MOEFW_FAKE_NCCL_RANK    both failures occur only on this rank (RANK)
 *   MOEFW_FAKE_NCCL_GPUS    number of devices (8) */
#include <errno.h>
#include <fcntl.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum { MOST_BLOCKS = 4096, LATE = 6 };

typedef struct piece {
    char *data;
    size_t bytes;
    int peer;
    bool sends, done;
    uint64_t number; /* number of this message among those to or from its peer, from 0 */
} piece;

typedef struct group {
    struct group *next;
    int n, late;
    bool issued;
    piece *piece;
} group;

struct ncclComm {
    int rank, ranks, late;
    char folder[NCCL_UNIQUE_ID_BYTES];
    uint64_t *sent, *received; /* [ranks] numbers of messages */
    group *first, *last;       /* queue of groups on the stream */
    uint64_t groups, finished; /* groups: begun on the stream; finished: done */
    bool beginning, issuing, ended;
};

struct CUevent_st {
    uint64_t after; /* number of groups that must be done before */
};
struct CUstream_st {
    int used;
};

static struct {
    void *block[MOST_BLOCKS];
    size_t bytes[MOST_BLOCKS];
    int objects;
    uint64_t draws, calls;
    int depth; /* nesting depth of group calls */
    group *open;
    ncclComm_t comm;
} all;

static void misuse(const char *what)
{
    fprintf(stderr, "fake NCCL: %s\n", what);
    _exit(98);
}

static uint64_t number_of(const char *name, uint64_t missing)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : missing;
}

static bool here(void)
{
    return number_of("MOEFW_FAKE_NCCL_RANK", UINT64_MAX) == UINT64_MAX ||
           number_of("MOEFW_FAKE_NCCL_RANK", 0) == number_of("RANK", 0);
}

static bool fails(void)
{
    return ++all.calls == number_of("MOEFW_FAKE_NCCL_FAIL", 0) && here();
}

static uint64_t draw(uint64_t below)
{
    if (all.draws == 0)
        all.draws = 1000 * number_of("MOEFW_FAKE_SEED", 1) + number_of("RANK", 0) + 1;
    all.draws += 0x9e3779b97f4a7c15u;
    uint64_t x = all.draws;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

/* ---- CUDA ---- */

static int block_of(const void *p, size_t bytes)
{
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (all.block[i] && (const char *)p >= (char *)all.block[i] &&
            (const char *)p + bytes <= (char *)all.block[i] + all.bytes[i])
            return i;
    return -1;
}

API cudaError_t cudaGetDeviceCount(int *count)
{
    *count = (int)number_of("MOEFW_FAKE_NCCL_GPUS", 8);
    return fails() ? cudaErrorNoDevice : cudaSuccess;
}

API cudaError_t cudaSetDevice(int device)
{
    return fails() || device >= (int)number_of("MOEFW_FAKE_NCCL_GPUS", 8)
               ? cudaErrorInvalidDevice
               : cudaSuccess;
}

API const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory"
           : error == cudaErrorNoDevice       ? "no CUDA-capable device is detected"
                                              : "a call has failed";
}

API cudaError_t cudaMallocAsync(void **ret, size_t bytes, cudaStream_t stream)
{
    int i = 0;
    if (!stream || stream->used) misuse("cudaMallocAsync in a stream that waits for peers");
    if (fails()) return cudaErrorMemoryAllocation;
    while (i < MOST_BLOCKS && all.block[i])
        i++;
    if (i == MOST_BLOCKS || !(all.block[i] = malloc(bytes))) return cudaErrorMemoryAllocation;
    memset(all.block[i], 0xa5, bytes);
    all.bytes[i] = bytes;
    *ret = all.block[i];
    return cudaSuccess;
}

API cudaError_t cudaFreeAsync(void *block, cudaStream_t stream)
{
    const int i = block_of(block, 0);
    if (!stream || stream->used) misuse("cudaFreeAsync in a stream that waits for peers");
    if (i < 0 || all.block[i] != block) misuse("cudaFreeAsync of memory not of the device");
    free(block);
    all.block[i] = NULL;
    return fails() ? cudaErrorUnknown : cudaSuccess;
}

API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (!stream) misuse("cudaMemcpyAsync without a stream");
    if (fails()) return cudaErrorUnknown;
    if (block_of(kind == cudaMemcpyHostToDevice ? to : from, bytes) < 0)
        misuse("cudaMemcpyAsync outside of the device's memory");
    if (block_of(kind == cudaMemcpyHostToDevice ? from : to, 1) >= 0)
        misuse("cudaMemcpyAsync: memory of the device in place of the host's");
    memcpy(to, from, bytes);
    return cudaSuccess;
}

API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret, unsigned flags)
{
    (void)flags;
    if (fails()) return cudaErrorUnknown;
    *ret = calloc(1, sizeof **ret);
    all.objects++;
    return *ret ? cudaSuccess : cudaErrorMemoryAllocation;
}

API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    all.objects--;
    return cudaSuccess;
}

API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (!stream) misuse("cudaStreamSynchronize without a stream");
    if (stream->used) misuse("cudaStreamSynchronize of a stream with messages: it would block");
    return fails() ? cudaErrorUnknown : cudaSuccess;
}

API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags)
{
    (void)flags;
    if (fails()) return cudaErrorUnknown;
    *ret = calloc(1, sizeof **ret);
    all.objects++;
    return *ret ? cudaSuccess : cudaErrorMemoryAllocation;
}

API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    all.objects--;
    return cudaSuccess;
}

API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (!stream || !all.comm) misuse("cudaEventRecord without a stream");
    if (all.comm->issuing) misuse("cudaEventRecord while a group is being issued");
    if (fails()) return cudaErrorUnknown;
    event->after = all.comm->groups;
    return cudaSuccess;
}

/* ---- messages ---- */

static void path_of(const ncclComm_t c, const piece *p, char *path, size_t size)
{
    snprintf(path, size, "%s/%d-%d-%llu", c->folder, p->sends ? c->rank : p->peer,
             p->sends ? p->peer : c->rank, (unsigned long long)p->number);
}

static void move(ncclComm_t c, piece *p)
{
    char path[256], part[300];
    path_of(c, p, path, sizeof path);
    snprintf(part, sizeof part, "%s.part", path);
    if (draw(2)) return;
    const int fd =
        p->sends ? open(part, O_WRONLY | O_CREAT | O_EXCL, 0600) : open(path, O_RDONLY);
    if (fd < 0) return;
    struct stat s;
    if (!p->sends && (fstat(fd, &s) != 0 || (size_t)s.st_size != p->bytes))
        misuse("a message has another length than is received");
    for (size_t at = 0; at < p->bytes;) {
        const ssize_t n = p->sends ? write(fd, p->data + at, p->bytes - at)
                                   : read(fd, p->data + at, p->bytes - at);
        if (n <= 0) misuse("a message is cut");
        at += (size_t)n;
    }
    close(fd);
    if (p->sends ? rename(part, path) != 0 : unlink(path) != 0) misuse("a message is lost");
    p->done = true;
}

static void drop(group *g)
{
    free(g->piece);
    free(g);
}

/* Moves the messages of the first group that are ready, in a random order. */
static void progress(ncclComm_t c)
{
    group *g = c->first;
    if (!g || !g->issued || (g->late > 0 && g->late-- > 0)) return;
    bool done = true;
    for (int i = 0, at = g->n ? (int)draw((uint64_t)g->n) : 0; i < g->n; i++, at++)
        if (!g->piece[at % g->n].done) move(c, &g->piece[at % g->n]);
    for (int i = 0; i < g->n; i++)
        done = done && g->piece[i].done;
    if (!done) return;
    c->first = g->next;
    c->finished++;
    drop(g);
}

API cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (fails()) return cudaErrorLaunchFailure;
    if (!all.comm) misuse("cudaEventQuery behind the communicator's end");
    progress(all.comm);
    return all.comm->finished >= event->after ? cudaSuccess : cudaErrorNotReady;
}

/* ---- NCCL ---- */

API const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSystemError ? "unhandled system error" : "a call has failed";
}

API const char *ncclGetLastError(ncclComm_t comm)
{
    return comm ? "a peer has failed" : "no communicator";
}

API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (fails()) return ncclSystemError;
    snprintf(id->internal, sizeof id->internal, "%s/fake_nccl_XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(id->internal) ? ncclSuccess : ncclSystemError;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                        ncclConfig_t *config)
{
    char path[256];
    if (config->blocking != 0) misuse("a communicator that blocks");
    if (fails()) return ncclSystemError;
    ncclComm_t c = calloc(1, sizeof *c);
    c->sent = calloc((size_t)ranks, sizeof *c->sent);
    c->received = calloc((size_t)ranks, sizeof *c->received);
    c->rank = rank;
    c->ranks = ranks;
    c->late = (int)draw(LATE);
    c->beginning = true;
    memcpy(c->folder, id.internal, sizeof c->folder);
    snprintf(path, sizeof path, "%s/rank-%d", c->folder, rank);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    all.comm = *comm = c;
    return ncclInProgress;
}

static bool all_there(const ncclComm_t c)
{
    for (int r = 0; r < c->ranks; r++) {
        char path[256];
        snprintf(path, sizeof path, "%s/rank-%d", c->folder, r);
        if (access(path, F_OK) != 0) return false;
    }
    return true;
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
    if (fails()) return ncclSystemError;
    *state = ncclRemoteError;
    const uint64_t groups = number_of("MOEFW_FAKE_NCCL_ASYNC", 0);
    if (groups > 0 && c->groups >= groups && here()) return ncclSuccess;
    *state = ncclInProgress;
    if (c->late > 0 && c->late-- > 0) return ncclSuccess;
    if (c->beginning && !all_there(c)) return ncclSuccess;
    if (c->issuing) c->last->issued = true;
    c->beginning = c->issuing = false;
    *state = ncclSuccess;
    return ncclSuccess;
}

API ncclResult_t ncclGroupStart(void)
{
    if (all.comm && (all.comm->issuing || all.comm->beginning))
        misuse("ncclGroupStart while the communicator is in progress");
    if (fails()) return ncclInternalError;
    if (all.depth++ == 0) all.open = calloc(1, sizeof *all.open);
    return ncclSuccess;
}

static ncclResult_t add(void *data, size_t count, int peer, ncclComm_t c, cudaStream_t stream,
                        bool sends)
{
    group *g = all.open;
    if (!g || all.depth == 0) misuse("a message outside of a group");
    if (block_of(data, count) < 0) misuse("a message in memory that is not of the device");
    if (peer < 0 || peer >= c->ranks || peer == c->rank) misuse("a message to no other rank");
    if (fails()) return ncclInvalidArgument;
    stream->used = 1;
    g->piece = realloc(g->piece, (size_t)(g->n + 1) * sizeof *g->piece);
    g->piece[g->n++] = (piece){.data = data,
                               .bytes = count,
                               .peer = peer,
                               .sends = sends,
                               .number = sends ? c->sent[peer]++ : c->received[peer]++};
    /* in both cases the message now belongs to the group */
    return draw(4) == 0 ? ncclInProgress : ncclSuccess;
}

API ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer,
                          ncclComm_t c, cudaStream_t stream)
{
    if (type != ncclUint8) misuse("values in place of bytes");
    return add((void *)(uintptr_t)data, count, peer, c, stream, true);
}

API ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                          cudaStream_t stream)
{
    if (type != ncclUint8) misuse("values in place of bytes");
    return add(data, count, peer, c, stream, false);
}

API ncclResult_t ncclGroupEnd(void)
{
    ncclComm_t c = all.comm;
    group *g = all.open;
    if (all.depth == 0 || --all.depth > 0) return ncclSuccess;
    all.open = NULL;
    g->late = (int)draw(LATE);
    if (!c->first)
        c->first = g;
    else
        c->last->next = g;
    c->last = g;
    c->groups++;
    c->issuing = true;
    c->late = (int)draw(LATE);
    return fails() ? ncclSystemError : ncclInProgress;
}

API ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    if (c->first) misuse("ncclCommFinalize with messages that are not done");
    if (fails()) return ncclSystemError;
    c->ended = true;
    c->late = (int)draw(LATE);
    return ncclInProgress;
}

static void forget(ncclComm_t c)
{
    char path[256];
    snprintf(path, sizeof path, "%s/rank-%d", c->folder, c->rank);
    unlink(path);
    rmdir(c->folder);             /* succeeds only for the last rank */
    if (all.open) drop(all.open); /* still open after a failed call within the group */
    for (group *g = c->first, *next; g; g = next) {
        next = g->next;
        drop(g);
    }
    free(c->sent);
    free(c->received);
    free(c);
    all.comm = NULL, all.open = NULL, all.depth = 0;
}

API ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    if (!c->ended) misuse("ncclCommDestroy without ncclCommFinalize");
    forget(c);
    return ncclSuccess;
}

API ncclResult_t ncclCommAbort(ncclComm_t c)
{
    forget(c);
    return ncclSuccess;
}

__attribute__((destructor)) static void look_for_leaks(void)
{
    int left = all.objects;
    for (int i = 0; i < MOST_BLOCKS; i++)
        left += all.block[i] != NULL;
    if (left == 0 || !getenv("MOEFW_FAKE_LEAKS")) return;
    fprintf(stderr, "fake NCCL: %d objects of the device are left\n", left);
    _exit(97);
}
