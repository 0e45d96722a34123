/* omp_musl.c: the part of an OpenMP runtime that moefw uses, for musl.sh: GCC's own is built
 * against the C library of the system. Threads are made anew for each parallel region. */
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

static void *body(void *arg)
{
    const part before = now;
    now = *(const part *)arg;
    now.fn(now.arg);
    now = before;
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

void GOMP_parallel(void (*fn)(void *), void *arg, unsigned n, unsigned flags)
{
    part parts[TEAM];
    pthread_t threads[TEAM];
    pthread_attr_t how;
    int team = now.team > 1 ? 1 : n > 0 ? (int)n : omp_get_max_threads();
    (void)flags;
    if (team > TEAM) team = TEAM;
    pthread_attr_init(&how);
    if (stack_size() > 0) pthread_attr_setstacksize(&how, stack_size());
    for (int i = 0; i < team; i++) {
        parts[i] = (part){fn, arg, i, team};
        if (i > 0 && pthread_create(&threads[i], &how, body, &parts[i]) != 0) abort();
    }
    body(&parts[0]);
    for (int i = 1; i < team; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&how);
}
