/* strict.c: a device for tests. It runs on the CPU, but is as strict as any device could be:
 *
 *   memory    the host crashes if it accesses addresses of the device. Kernels use other
 *             addresses of this memory (`real`). New memory contains NaN, and kernels cannot
 *             read freed memory
 *   streams   run late: queued work runs when the host waits. With MOEFW_STRICT_SEED some of it
 *             runs earlier, at random points, and streams alternate in a random order, as far
 *             as events allow
 *   copies    the host's memory must not change between queueing and running a copy; the target
 *             of a copy to the host contains NaN until the copy is done
 *   launches  every pointer must point to allocated memory of the device
 *
 * MOEFW_STRICT_LACKS, a list of kernels such as "gemm topk", removes these from the device's
 * set. "all" removes all kernels except those that are launched outside of ops.
 *
 * A recording contains the work that is queued between its begin and end. Meanwhile the host
 * must not wait, and nothing may be copied to or from the host's memory.
 *
 * After a violation every wait returns an error. With MOEFW_STRICT_STATS=1 the device prints,
 * when it is closed, the numbers of copies, fills, waits, launches and calls, and the largest
 * numbers of copies, waits and allocations between two optimizer steps. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <moefw/version.h>
#include "graph/device/device.h"
#include "counts.h"
#include "lacks.h"
#include "launch.h"
#include "strict.h"

#define MOST ((size_t)256 << 30) /* addresses to reserve; fewer if the system refuses */
enum { PAGE = 4096, POISON = 0xff };

typedef struct allocation {
    struct allocation *next;
    size_t at, bytes; /* offset and size in the region */
} allocation;

typedef enum entry_kind { LAUNCH, CALL, WRITE, READ, COPY, FILL, RECORD, WAIT } entry_kind;

typedef struct event {
    uint64_t queued, done; /* numbers of the last records that were queued, and that
                            * were done */
} event;

typedef struct entry {
    struct entry *next;
    entry_kind kind;
    int kernel; /* for LAUNCH: the kernel; the next two fields are its context and kernel set */
    mf_kctx context;
    const mf_kernels *set;
    const char *name; /* for CALL: this and the next two fields */
    void (*fn)(void *arg);
    int n_pointers;
    void *to; /* for WRITE, READ, COPY, FILL */
    const void *from;
    int byte;
    uint64_t sum; /* WRITE: checksum of the host's memory when it was queued */
    event *event; /* for RECORD, WAIT */
    uint64_t ticket;
    size_t bytes;
    size_t size; /* size of args */
    _Alignas(16) char args[];
} entry;

typedef struct queue {
    strict_stream head; /* first member, because ops of plugins receive its address */
    struct strict *of;
    struct queue *next;
    entry *first, *tail, **last;
    struct recording *records; /* if not NULL, the recording to which entries are added, between
                                * record_begin and end */
} queue;

typedef struct recording {
    entry *first, **last;
} recording;

typedef struct strict {
    mf_backend_host host;
    /* the region at the addresses that callers see, and at the addresses that kernels use */
    char *seen, *real;
    size_t region, used;
    allocation *allocations;
    queue *streams;
    const mf_kernels *set; /* kernel set of the launches that will be queued next */
    uint64_t random;       /* state of the random generator; 0: all work runs as late
                            * as possible */
    int error;
    char message[512];
    counts all, step; /* counts since the device was opened, and since the last step began */
    long steps, most_copies, most_waits, most_blocks, recordings;
    bool updating; /* the last launch was the kernel adamw */
} strict;

static strict *of(mf_device *d)
{
    return d->self;
}

static int breach(strict *s, int code, const char *fmt, ...)
{
    va_list args;
    if (s->error != MF_OK) return s->error;
    va_start(args, fmt);
    vsnprintf(s->message, sizeof s->message, fmt, args);
    va_end(args);
    return s->error = code;
}

/* ---- memory ---- */

static const char *message(mf_device *d)
{
    return of(d)->message;
}

/* Allocates whole pages, followed by a page that cannot be accessed. No address is
 * allocated twice. */
static int alloc(mf_device *d, size_t bytes, void **ret)
{
    strict *s = of(d);
    const size_t room = (bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes > s->region || s->used + room + PAGE > s->region ||
        mprotect(s->real + s->used, room, PROT_READ | PROT_WRITE) != 0) {
        snprintf(s->message, sizeof s->message, "no memory for %zu bytes", bytes);
        return MF_ENOMEM;
    }
    allocation *a = malloc(sizeof *a);
    if (!a) return MF_ENOMEM;
    *a = (allocation){.next = s->allocations, .at = s->used, .bytes = room};
    s->allocations = a;
    memset(s->real + a->at, POISON, room);
    s->used += room + PAGE;
    s->step.blocks++;
    *ret = s->seen + a->at;
    return MF_OK;
}

static allocation **find(strict *s, size_t at)
{
    allocation **a = &s->allocations;
    while (*a && (at < (*a)->at || at > (*a)->at + (*a)->bytes))
        a = &(*a)->next;
    return a;
}

static void free_block(mf_device *d, void *block)
{
    strict *s = of(d);
    if (!block) return;
    const size_t at = (size_t)((char *)block - s->seen);
    allocation **from = find(s, at), *a = *from;
    if (!a || a->at != at) {
        breach(s, MF_ERUN, "free of %p, which is no block", block);
        return;
    }
    (void)madvise(s->real + at, a->bytes, MADV_DONTNEED);
    (void)mprotect(s->real + at, a->bytes, PROT_NONE);
    *from = a->next;
    free(a);
}

/* Returns the address that kernels use for p. Returns NULL and records a violation if kernels
 * must not access these bytes. */
static void *real_of(strict *s, const void *p, size_t bytes, const char *who, const char *what)
{
    const char *c = p;
    if (c < s->seen || c >= s->seen + s->region) {
        breach(s, MF_ERUN, "%s: %s (%p) is not memory of the device", who, what, p);
        return NULL;
    }
    const size_t at = (size_t)(c - s->seen);
    const allocation *a = *find(s, at);
    if (a && bytes <= a->at + a->bytes - at) return s->real + at;
    breach(s, MF_ERUN, "%s: %s is memory that %s", who, what,
           a ? "is too short" : "was freed, or never allocated");
    return NULL;
}

static bool on_device(const strict *s, const void *p)
{
    return (const char *)p >= s->seen && (const char *)p < s->seen + s->region;
}

static int alloc_host(mf_device *d, size_t bytes, void **ret)
{
    *ret = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (*ret) return MF_OK;
    snprintf(of(d)->message, sizeof of(d)->message, "no memory for %zu bytes", bytes);
    return MF_ENOMEM;
}

static void free_host(mf_device *d, void *block)
{
    (void)d;
    free(block);
}

static int memory(mf_device *d, size_t *ret_free, size_t *ret_total)
{
    *ret_free = of(d)->region - of(d)->used;
    *ret_total = of(d)->region;
    return MF_OK;
}

/* ---- queues ---- */

static uint64_t sum_of(const void *p, size_t bytes)
{
    const unsigned char *c = p;
    uint64_t sum = 14695981039346656037u, word;
    for (; bytes >= sizeof word; c += sizeof word, bytes -= sizeof word) {
        memcpy(&word, c, sizeof word);
        sum = (sum ^ word) * 1099511628211u;
        sum ^= sum >> 29;
    }
    for (; bytes > 0; c++, bytes--)
        sum = (sum ^ *c) * 1099511628211u;
    return sum;
}

static uint64_t draw(strict *s, uint64_t below)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % below;
}

typedef struct named {
    strict *s;
    const char *kernel;
} named;

static void *move_to_real(const mover *m, const void *p, const char *argument)
{
    const named *who = m->self;
    return real_of(who->s, p, 0, who->kernel, argument);
}

static void run_launch(strict *s, entry *e);
static void count_launch(strict *s, int kernel);

static void *real_args(strict *s, const char *who, entry *e)
{
    for (int i = 0; i < e->n_pointers; i++) {
        void **p = (void **)(void *)e->args + i;
        if (*p && !(*p = real_of(s, *p, 0, who, "a pointer"))) return NULL;
    }
    return e->args;
}

static void run_copy(strict *s, entry *e)
{
    if (e->kind == WRITE) {
        void *to = real_of(s, e->to, e->bytes, "a copy to the device", "its target");
        if (sum_of(e->from, e->bytes) != e->sum)
            breach(s, MF_ERUN,
                   "the host's side of a copy of %zu bytes has changed while it waited",
                   e->bytes);
        if (to) memcpy(to, e->from, e->bytes);
    } else if (e->kind == READ) {
        void *from = real_of(s, e->from, e->bytes, "a copy to the host", "its source");
        if (from) memcpy(e->to, from, e->bytes);
    } else if (e->kind == COPY) {
        void *to = real_of(s, e->to, e->bytes, "a copy", "its target");
        void *from = real_of(s, e->from, e->bytes, "a copy", "its source");
        if (to && from) memmove(to, from, e->bytes);
    } else {
        void *to = real_of(s, e->to, e->bytes, "a fill", "its target");
        if (to) memset(to, e->byte, e->bytes);
    }
}

/* Runs one entry. After a violation only records of events have an effect. */
static void run(strict *s, entry *e)
{
    if (e->kind == RECORD) e->event->done = e->ticket;
    if (e->kind == RECORD || e->kind == WAIT || s->error != MF_OK) return;
    if (e->kind == LAUNCH)
        run_launch(s, e);
    else if (e->kind == CALL) {
        if (real_args(s, e->name, e)) e->fn(e->args);
    } else
        run_copy(s, e);
}

static bool ready(const queue *t)
{
    return t->first && (t->first->kind != WAIT || t->first->event->done >= t->first->ticket);
}

/* Runs the first entry of a stream that can continue. With a seed the stream is chosen at
 * random. Returns false if no stream can continue. */
static bool run_some(strict *s)
{
    queue *can[64];
    uint64_t n = 0;
    for (queue *t = s->streams; t && n < 64; t = t->next)
        if (ready(t)) can[n++] = t;
    if (n == 0) return false;
    queue *t = can[s->random && n > 1 ? draw(s, n) : 0];
    entry *e = t->first;
    t->first = e->next;
    if (!t->first) t->last = &t->first;
    run(s, e);
    free(e);
    return true;
}

/* With a seed, runs some queued work at random times, before the host waits. */
static void maybe_run(strict *s)
{
    if (!s->random || draw(s, 8) != 0) return;
    for (uint64_t n = draw(s, 64); n > 0 && run_some(s); n--) {
    }
}

static entry *append(queue *t, entry_kind kind, size_t bytes)
{
    entry *e = calloc(1, sizeof *e + bytes);
    if (!e) {
        breach(t->of, MF_ENOMEM, "no memory for a queue");
        return NULL;
    }
    e->kind = kind;
    e->size = bytes;
    if (t->records) {
        *t->records->last = e;
        t->records->last = &e->next;
        if (kind != LAUNCH && kind != CALL && kind != COPY && kind != FILL)
            breach(t->of, MF_ERUN, "a copy from or to the host, or an event, in a recording");
    } else {
        *t->last = e;
        t->last = &e->next;
    }
    t->tail = e;
    return e;
}

#include "recordings.h"

/* ---- launches ---- */

/* Counts a launch. A step lasts from the first launch of adamw in an optimizer step to the
 * first launch of adamw in the next step. */
static void count_launch(strict *s, int kernel)
{
    const bool update = kernel == KERNEL_adamw;
    s->all.launches++;
    s->step.launches++;
    if (update && !s->updating) {
        const long copies = s->step.to_device + s->step.from_device + s->step.within;
        if (s->steps++ > 0) {
            if (copies > s->most_copies) s->most_copies = copies;
            if (s->step.waits > s->most_waits) s->most_waits = s->step.waits;
            if (s->step.blocks > s->most_blocks) s->most_blocks = s->step.blocks;
        }
        s->step = (counts){0};
    }
    s->updating = update;
}

static void launch(const mf_kctx *x, int kernel, const void *args, size_t bytes)
{
    queue *t = x->stream;
    if (!t) {
        fprintf(stderr, "strict: %s is launched without a stream\n", launched[kernel].name);
        abort();
    }
    entry *e = append(t, LAUNCH, bytes);
    if (!e) return;
    e->kernel = kernel;
    e->context = *x;
    e->set = t->of->set;
    memcpy(e->args, args, bytes);
    count_launch(t->of, kernel);
    maybe_run(t->of);
}

static void run_launch(strict *s, entry *e)
{
    const launched_kernel *k = &launched[e->kernel];
    named who = {s, k->name};
    struct moved_weight room = {.table = NULL};
    const mover m = {.to = move_to_real, .self = &who, .room = &room};
    mf_kctx x = e->context;
    x.stream = NULL;
    x.fault = moved(&m, x.fault, "fault");
    x.key = moved(&m, x.key, "key");
    k->move(&m, e->args);
    if (s->error == MF_OK) k->run(e->set, &x, e->args);
    free(room.table);
}

/* can_pack has no argument for the device, so the kernel set that packs weights is a global
 * variable. A process uses only one such set. */
static const mf_kernels *packer;
static bool can_pack(int type, int64_t n, int64_t k)
{
    return packer->can_pack && packer->can_pack(type, n, k);
}

static mf_kernels kernels;

static const mf_kernels *kernels_like(mf_device *d, const mf_kernels *host)
{
    of(d)->set = host ? host : of(d)->host.kernels;
    return &kernels;
}

static void enqueue(strict_stream *head, const char *name, void (*fn)(void *arg),
                    const void *arg, size_t bytes, int n_pointers)
{
    queue *t = (queue *)(void *)head;
    entry *e = append(t, CALL, bytes);
    if (!e) return;
    e->name = name;
    e->fn = fn;
    e->n_pointers = n_pointers;
    memcpy(e->args, arg, bytes);
    t->of->all.calls++;
    maybe_run(t->of);
}

/* ---- copies ---- */

static int copy_entry(mf_device *d, void *where, entry_kind kind, void *to, const void *from,
                      size_t bytes)
{
    strict *s = of(d);
    entry *e = append(where, kind, 0);
    if (!e) return s->error;
    e->to = to;
    e->from = from;
    e->bytes = bytes;
    return MF_OK;
}

static int write_to(mf_device *d, void *where, void *to, const void *from, size_t bytes)
{
    strict *s = of(d);
    if (on_device(s, from)) return breach(s, MF_ERUN, "a copy to the device from the device");
    int rc = copy_entry(d, where, WRITE, to, from, bytes);
    if (rc == MF_OK) ((queue *)where)->tail->sum = sum_of(from, bytes);
    s->all.to_device++;
    s->step.to_device++;
    maybe_run(s);
    return rc;
}

static int read_from(mf_device *d, void *where, void *to, const void *from, size_t bytes)
{
    strict *s = of(d);
    if (on_device(s, to)) return breach(s, MF_ERUN, "a copy to the host into the device");
    int rc = copy_entry(d, where, READ, to, from, bytes);
    if (rc == MF_OK) memset(to, POISON, bytes);
    s->all.from_device++;
    s->step.from_device++;
    maybe_run(s);
    return rc;
}

static int copy(mf_device *d, void *where, void *to, const void *from, size_t bytes)
{
    int rc = copy_entry(d, where, COPY, to, from, bytes);
    of(d)->all.within++;
    of(d)->step.within++;
    maybe_run(of(d));
    return rc;
}

static int fill(mf_device *d, void *where, void *to, int byte, size_t bytes)
{
    int rc = copy_entry(d, where, FILL, to, NULL, bytes);
    if (rc == MF_OK) ((queue *)where)->tail->byte = byte;
    of(d)->all.fills++;
    maybe_run(of(d));
    return rc;
}

/* ---- streams and events ---- */

static int stream_new(mf_device *d, void **ret)
{
    queue *t = calloc(1, sizeof *t);
    if (!t) return MF_ENOMEM;
    t->head.enqueue = enqueue;
    t->of = of(d);
    t->last = &t->first;
    t->next = t->of->streams;
    t->of->streams = t;
    *ret = t;
    return MF_OK;
}

static void stream_free(mf_device *d, void *which)
{
    queue **at = &of(d)->streams, *t = which;
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at) *at = t->next;
    while (t->first) {
        entry *e = t->first;
        t->first = e->next;
        free(e);
    }
    free(t);
}

static int event_new(mf_device *d, void **ret)
{
    (void)d;
    *ret = calloc(1, sizeof(event));
    return *ret ? MF_OK : MF_ENOMEM;
}

/* Frees the event, unless a queued entry still uses it, which is a violation. */
static void event_free(mf_device *d, void *which)
{
    strict *s = of(d);
    for (queue *t = s->streams; t; t = t->next)
        for (entry *e = t->first; e; e = e->next)
            if (e->event == which)
                breach(s, MF_ERUN, "an event is freed while a stream has it");
    if (s->error == MF_OK) free(which);
}

static int event_entry(mf_device *d, void *where, void *which, entry_kind kind)
{
    event *v = which;
    entry *e = append(where, kind, 0);
    if (!e) return of(d)->error;
    e->event = v;
    e->ticket = kind == RECORD ? ++v->queued : v->queued;
    maybe_run(of(d));
    return MF_OK;
}

static int event_record(mf_device *d, void *which, void *where)
{
    return event_entry(d, where, which, RECORD);
}

static int stream_wait(mf_device *d, void *where, void *which)
{
    return event_entry(d, where, which, WAIT);
}

static int stuck(strict *s)
{
    return breach(s, MF_ERUN, "streams wait for events that are never recorded");
}

static int event_wait(mf_device *d, void *which)
{
    strict *s = of(d);
    const event *v = which;
    const uint64_t ticket = v->queued;
    if (v->done < ticket) {
        s->all.waits++;
        s->step.waits++;
    }
    while (v->done < ticket)
        if (!run_some(s)) return stuck(s);
    return s->error;
}

static bool busy(const strict *s, const queue *which)
{
    for (const queue *t = s->streams; t; t = t->next)
        if (t->first && (!which || t == which)) return true;
    return false;
}

static bool records(const strict *s)
{
    for (const queue *t = s->streams; t; t = t->next)
        if (t->records) return true;
    return false;
}

static int synchronize(mf_device *d, void *which)
{
    strict *s = of(d);
    s->all.waits++;
    s->step.waits++;
    if (records(s)) return breach(s, MF_ERUN, "the host waits within a recording");
    while (busy(s, which))
        if (!run_some(s)) return stuck(s);
    return s->error;
}

/* ---- opening and closing ---- */

static void print_counts(const strict *s)
{
    print_all(&s->all);
    if (s->steps > 1)
        fprintf(stderr, "strict: at most %ld copies, %ld waits and %ld allocations in a step\n",
                s->most_copies, s->most_waits, s->most_blocks);
}

static void close_device(mf_device *d)
{
    strict *s = of(d);
    const char *stats = getenv("MOEFW_STRICT_STATS");
    if (stats && stats[0] == '1') print_counts(s);
    while (s->allocations) {
        allocation *a = s->allocations;
        s->allocations = a->next;
        fprintf(stderr, "strict: %zu bytes were not freed\n", a->bytes);
        free(a);
    }
    if (s->recordings)
        fprintf(stderr, "strict: %ld recordings were not freed\n", s->recordings);
    munmap(s->seen, s->region);
    munmap(s->real, s->region);
    free(s);
}

static const mf_device_ops ops = {
    .size = sizeof ops,
    .name = "strict",
    .close = close_device,
    .message = message,
    .alloc = alloc,
    .free = free_block,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .memory = memory,
    .write = write_to,
    .read = read_from,
    .copy = copy,
    .fill = fill,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_wait = event_wait,
    .synchronize = synchronize,
    .kernels_like = kernels_like,
    .record_begin = record_begin,
    .record_end = record_end,
    .replay = replay,
    .recording_free = recording_free,
};

static int open_device(const mf_backend_host *host, int index, mf_device *d, char *text,
                       size_t size)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const char *seed = getenv("MOEFW_STRICT_SEED");
    if (index != 0) {
        snprintf(text, size, "there is one strict device, expected number 0");
        return MF_EDEP;
    }
    strict *s = calloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    for (s->region = MOST; s->region > MOST >> 8; s->region /= 2) {
        s->seen = mmap(NULL, s->region, PROT_NONE, flags, -1, 0);
        s->real = mmap(NULL, s->region, PROT_NONE, flags, -1, 0);
        if (s->seen != MAP_FAILED && s->real != MAP_FAILED) break;
        if (s->seen != MAP_FAILED) munmap(s->seen, s->region);
        if (s->real != MAP_FAILED) munmap(s->real, s->region);
        s->seen = MAP_FAILED;
    }
    if (s->seen == MAP_FAILED) {
        snprintf(text, size, "no address space");
        free(s);
        return MF_ENOMEM;
    }
    s->host = *host;
    s->set = packer = host->kernels;
    kernels = launching;
    kernels.name = "strict";
    kernels.can_pack = can_pack;
    take_away(&kernels, getenv("MOEFW_STRICT_LACKS"));
    s->random = seed ? strtoull(seed, NULL, 10) : 0;
    d->ops = &ops;
    d->self = s;
    d->kernels = &kernels;
    return MF_OK;
}

__attribute__((visibility("default"))) const mf_backend moefw_backend = {
    .magic = MF_BACKEND_MAGIC,
    .size = sizeof moefw_backend,
    .device_size = sizeof(mf_device_ops),
    .kernels_size = sizeof(mf_kernels),
    .version = MOEFW_VERSION,
    .name = "strict",
    .open = open_device,
};
