/* base/thread/parallel.c: runs tiles on threads. The number of threads never decides how work
 * is divided, so results have the same bits at any number of threads.
 *
 * A thread that calls mf_parallel has a team of workers, which are started when they are first
 * needed. Between two calls the workers wait: first awake for some microseconds, then asleep,
 * so that other programs can use the processor of a busy machine. The team ends with
 * its thread. */
#include "base/thread/parallel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SPINS = 3000,    /* reads of a value before a thread sleeps; they take some tens
                      * of microseconds */
    SPINS_BUSY = 50, /* number of reads if there are more threads than processors */
    STACK = 4 << 20  /* bytes of a worker's stack, on which tiles of plugins run */
};

/* The tiles begin .. end - 1 of a share that no thread has begun, stored as begin << 32
 * | end. */
typedef struct share {
    alignas(64) _Atomic uint64_t left;
} share;

typedef struct worker {
    pthread_t thread;
    struct team *team;
    int index;     /* index of the worker's share; the caller's share has index 0 */
    uint32_t seen; /* value of `call` before the worker was started */
} worker;

typedef struct team {
    int room, started; /* room: greatest number of workers; started: present number */
    worker *workers;
    share *shares; /* [room + 1] */

    int threads; /* number of threads, including the caller */
    mf_tile_fn fn;
    void *arg;
    alignas(64) _Atomic uint32_t call;    /* counts the calls; workers wait until it changes */
    alignas(64) _Atomic uint32_t working; /* workers that have not finished this call */
    alignas(64) _Atomic uint32_t asleep;  /* workers that sleep and must be woken */
    _Atomic uint32_t caller_asleep;
    atomic_bool ends;
} team;

static _Thread_local int threads_now; /* 0: the number is not set yet */
static _Thread_local team *own_team;  /* team of this thread; NULL: none yet */
static _Thread_local bool inside;     /* this thread is computing a tile of a call */

static pthread_key_t at_end; /* its destructor ends a thread's team when the thread ends */
static bool has_key;
static int usual;                /* the default number of threads */
static int processors;           /* number of processors that this process may use */
static atomic_int threads_alive; /* number of threads of all teams, including their callers */

/* Sets the default number of threads: the first number of OMP_NUM_THREADS, else the number of
 * processors in the affinity mask. */
__attribute__((constructor)) static void look_around(void)
{
    cpu_set_t set;
    const char *text = getenv("OMP_NUM_THREADS");
    const long asked = text ? strtol(text, NULL, 10) : 0;
    processors = sched_getaffinity(0, sizeof set, &set) == 0
                     ? CPU_COUNT(&set)
                     : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 1) processors = 1;
    usual = asked > 0 ? (int)(asked < MF_THREADS_MAX ? asked : MF_THREADS_MAX) : processors;
}

int mf_parallel_threads(void)
{
    if (threads_now == 0) threads_now = usual;
    return threads_now;
}

int mf_parallel_usual_threads(void)
{
    return usual;
}

int mf_parallel_set_threads(int threads)
{
    threads_now = threads > 0 ? threads : usual;
    if (threads_now > MF_THREADS_MAX) threads_now = MF_THREADS_MAX;
    return threads_now;
}

/* ---- waiting ---- */

static inline void rest(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int spins(void)
{
    static const char passive[] = "passive";
    static atomic_int chosen; /* 0: not read yet; 1: passive; 2: default */
    int now = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (now == 0) {
        const char *policy = getenv("OMP_WAIT_POLICY");
        now = policy && strcasecmp(policy, passive) == 0 ? 1 : 2;
        atomic_store_explicit(&chosen, now, memory_order_relaxed);
    }
    if (now == 1) return 0;
    return atomic_load_explicit(&threads_alive, memory_order_relaxed) > processors ? SPINS_BUSY
                                                                                   : SPINS;
}

/* Waits until the value is no longer `old`. The thread that changes the value wakes the threads
 * that `asleep` counts. Either the waiting thread sees the change, or the changing thread sees
 * that a thread waits. */
static void wait_change(_Atomic uint32_t *value, uint32_t old, _Atomic uint32_t *asleep)
{
    for (int i = spins(); i > 0; i--) {
        if (atomic_load_explicit(value, memory_order_acquire) != old) return;
        rest();
    }
    atomic_fetch_add(asleep, 1);
    while (atomic_load(value) == old)
        syscall(SYS_futex, value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(asleep, 1);
}

static void wake(_Atomic uint32_t *value)
{
    syscall(SYS_futex, value, FUTEX_WAKE_PRIVATE, MF_THREADS_MAX, NULL, NULL, 0);
}

/* ---- tiles ---- */

/* Takes the first or the last tile of a share; false: the share is empty. */
static bool take(share *s, bool first, int64_t *ret_tile)
{
    uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed), others;
    do {
        const uint64_t from = left >> 32, end = left & UINT32_MAX;
        if (from >= end) return false;
        *ret_tile = (int64_t)(first ? from : end - 1);
        others = first ? (from + 1) << 32 | end : from << 32 | (end - 1);
    } while (!atomic_compare_exchange_weak_explicit(
        &s->left, &left, others, memory_order_relaxed, memory_order_relaxed));
    return true;
}

/* Each thread has the same share of the tiles in each call, so it finds in its caches what it
 * wrote in the call before. When its share is empty, it takes tiles from the end of the other
 * shares. So a thread that the system has stopped for a while delays the others by one tile
 * at most. */
static void run_shares(const team *t, int own)
{
    inside = true;
    for (int i = 0; i < t->threads; i++) {
        int64_t tile;
        while (take(&t->shares[(own + i) % t->threads], i == 0, &tile))
            t->fn(t->arg, tile);
    }
    inside = false;
}

static bool (*on_begin)(void);

void mf_parallel_on_begin(bool (*begin)(void))
{
    on_begin = begin;
}

/* Runs in a worker. If the worker cannot begin, the other threads compute its tiles. */
static void *work(void *arg)
{
    const worker *w = arg;
    team *t = w->team;
    uint32_t seen = w->seen;
    const bool able = !on_begin || on_begin();
    for (;;) {
        wait_change(&t->call, seen, &t->asleep);
        seen = atomic_load_explicit(&t->call, memory_order_acquire);
        if (atomic_load_explicit(&t->ends, memory_order_relaxed)) return NULL;
        if (able && w->index < t->threads) run_shares(t, w->index);
        if (atomic_fetch_sub(&t->working, 1) == 1 && atomic_load(&t->caller_asleep) > 0)
            wake(&t->working);
    }
}

/* ---- teams ---- */

static void end_team(void *arg)
{
    team *t = arg;
    if (!t) return;
    atomic_store(&t->ends, true);
    atomic_fetch_add(&t->call, 1);
    wake(&t->call);
    for (int i = 0; i < t->started; i++)
        pthread_join(t->workers[i].thread, NULL);
    atomic_fetch_sub(&threads_alive, t->started + 1);
    free(t->workers);
    free(t->shares);
    free(t);
    pthread_setspecific(at_end, NULL);
    own_team = NULL;
}

/* After fork the child process has none of the workers, so it must forget the team. */
static void forget(void)
{
    own_team = NULL;
    atomic_store(&threads_alive, 0);
}

static void make_key(void)
{
    has_key =
        pthread_key_create(&at_end, end_team) == 0 && pthread_atfork(NULL, NULL, forget) == 0;
}

/* Starts a worker, which waits for the next call. */
static bool start_worker(team *t)
{
    pthread_attr_t attr;
    worker *w = &t->workers[t->started];
    *w = (worker){.team = t, .index = t->started + 1, .seen = atomic_load(&t->call)};
    if (pthread_attr_init(&attr) != 0) return false;
    pthread_attr_setstacksize(&attr, STACK);
    const bool fine = pthread_create(&w->thread, &attr, work, w) == 0;
    pthread_attr_destroy(&attr);
    t->started += fine;
    return fine;
}

/* Allocates a team for `threads` threads, including the caller. Returns NULL without memory:
 * the caller then works alone. This is no error, so nothing is recorded. */
static team *new_team(int threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    team *t = has_key ? aligned_alloc(64, sizeof *t) : NULL;
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->room = threads - 1;
    t->workers = calloc((size_t)threads, sizeof *t->workers);
    t->shares = aligned_alloc(64, (size_t)threads * sizeof *t->shares);
    atomic_fetch_add(&threads_alive, 1);
    if (t->workers && t->shares && pthread_setspecific(at_end, t) == 0) return t;
    end_team(t);
    return NULL;
}

/* Returns the team of this thread, with as many workers as the system can start; NULL:
 * no team. */
static team *team_of(int threads)
{
    if (own_team && own_team->room < threads - 1) end_team(own_team);
    if (!own_team) own_team = new_team(threads);
    if (!own_team) return NULL;
    while (own_team->started < threads - 1 && start_worker(own_team))
        atomic_fetch_add(&threads_alive, 1);
    return own_team;
}

static void run_team(team *t, int threads, int64_t tiles, mf_tile_fn fn, void *arg)
{
    const int n = threads < t->started + 1 ? threads : t->started + 1;
    for (int i = 0; i < n; i++)
        atomic_store_explicit(&t->shares[i].left,
                              (uint64_t)(tiles * i / n) << 32 | (uint64_t)(tiles * (i + 1) / n),
                              memory_order_relaxed);
    t->threads = n;
    t->fn = fn;
    t->arg = arg;
    atomic_store(&t->working, (uint32_t)t->started);
    atomic_fetch_add(&t->call, 1);
    if (atomic_load(&t->asleep) > 0) wake(&t->call);
    run_shares(t, 0);
    for (uint32_t left; (left = atomic_load_explicit(&t->working, memory_order_acquire)) > 0;)
        wait_change(&t->working, left, &t->caller_asleep);
}

void mf_parallel(int64_t tiles, mf_tile_fn fn, void *arg)
{
    const int threads = mf_parallel_threads();
    if (tiles > 1 && tiles <= UINT32_MAX && threads > 1 && !inside) {
        team *t = team_of(threads);
        if (t && t->started > 0) {
            run_team(t, threads, tiles, fn, arg);
            return;
        }
    }
    for (int64_t tile = 0; tile < tiles; tile++)
        fn(arg, tile);
}
