/* omp_musl.c: the part of an OpenMP runtime that moefw uses, for musl.sh: GCC's own is built
 * against the C library of the system. A thread that has done its part waits for another one; a
 * child of fork has none of them. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEAM = 64 };

int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_in_parallel(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int n);
void GOMP_parallel(void (*fn)(void *), void *arg, unsigned n, unsigned flags);

typedef struct part {
    void (*fn)(void *);
    void *arg;
    int me, team;
} part;

static _Thread_local part now = {.team = 1};
static _Thread_local int wanted; /* 0: nothing is set */

typedef struct worker worker;
struct worker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const part *todo; /* NULL: it waits */
    worker *next;     /* in the list of those that wait */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static worker *waiting;

static void run_part(const part *todo)
{
    const part before = now;
    now = *todo;
    now.fn(now.arg);
    now = before;
}

static void *work(void *arg)
{
    worker *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->todo)
            pthread_cond_wait(&w->changed, &w->lock);
        pthread_mutex_unlock(&w->lock);
        run_part(w->todo);
        pthread_mutex_lock(&w->lock);
        w->todo = NULL;
        pthread_cond_broadcast(&w->changed);
    }
    return NULL;
}

int omp_get_thread_num(void)
{
    return now.me;
}

int omp_get_num_threads(void)
{
    return now.team;
}

int omp_in_parallel(void)
{
    return now.team > 1;
}

void omp_set_num_threads(int n)
{
    wanted = n;
}

int omp_get_max_threads(void)
{
    if (wanted > 0) return wanted;
    const char *text = getenv("OMP_NUM_THREADS");
    const long n = text ? strtol(text, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > TEAM ? TEAM : (int)n;
}

/* OMP_STACKSIZE in bytes: a number and B, K or M; without a letter, K. 0: not set. */
static size_t stack_size(void)
{
    const char *text = getenv("OMP_STACKSIZE");
    char *end;
    if (!text) return 0;
    const double n = strtod(text, &end);
    return (size_t)(*end == 'M' || *end == 'm'   ? n * 1048576
                    : *end == 'B' || *end == 'b' ? n
                                                 : n * 1024);
}

static void forget(void)
{
    pthread_mutex_init(&lock, NULL);
    waiting = NULL;
}

static worker *new_worker(void)
{
    worker *w = calloc(1, sizeof *w);
    pthread_attr_t how;
    pthread_t thread;
    pthread_attr_init(&how);
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    if (stack_size() > 0) pthread_attr_setstacksize(&how, stack_size());
    if (!w || pthread_mutex_init(&w->lock, NULL) != 0 ||
        pthread_cond_init(&w->changed, NULL) != 0 ||
        pthread_create(&thread, &how, work, w) != 0)
        abort();
    pthread_attr_destroy(&how);
    return w;
}

static worker *take_worker(void)
{
    static bool registered;
    pthread_mutex_lock(&lock);
    if (!registered) registered = pthread_atfork(NULL, NULL, forget) == 0;
    worker *w = waiting;
    if (w) waiting = w->next;
    pthread_mutex_unlock(&lock);
    return w ? w : new_worker();
}

static void give(worker *w, const part *todo)
{
    pthread_mutex_lock(&w->lock);
    w->todo = todo;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void wait_for(worker *w)
{
    pthread_mutex_lock(&w->lock);
    while (w->todo)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_lock(&lock);
    w->next = waiting;
    waiting = w;
    pthread_mutex_unlock(&lock);
}

void GOMP_parallel(void (*fn)(void *), void *arg, unsigned n, unsigned flags)
{
    part parts[TEAM];
    worker *workers[TEAM];
    int team = now.team > 1 ? 1 : n > 0 ? (int)n : omp_get_max_threads();
    (void)flags;
    if (team > TEAM) team = TEAM;
    for (int i = 0; i < team; i++) {
        parts[i] = (part){fn, arg, i, team};
        if (i > 0) give(workers[i] = take_worker(), &parts[i]);
    }
    run_part(&parts[0]);
    for (int i = 1; i < team; i++)
        wait_for(workers[i]);
}
