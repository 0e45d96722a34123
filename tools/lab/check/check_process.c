/* The state of the process after functions of a plugin have run: descriptors, threads,
 * children, signal handlers, environment, locale, umask, current folder, and the stack that the
 * functions use. Other plugins and the program depend on this state. */
#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread/parallel.h"
#include "base/signal_name.h"
#include "lab/bench/stub.h"
#include "lab/check/checks.h"

extern char **environ;

enum {
    FDS = 256,
    SIGNALS = 32,
    STEPS = 3,
    MANY = 320,
    INSTANCES = 64,
    STACK = 8 << 20,
    STACK_LIMIT = 1 << 20
};

typedef struct state {
    bool open[FDS];
    int threads;
    bool children;
    void *handler[SIGNALS];
    uint64_t environment;
    mode_t mask;
    char locale[256], folder[512];
} state;

/* ---- the state of the process ---- */

static int entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
        n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

static uint64_t environment(void)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (char **e = environ; e && *e; e++)
        for (const char *c = *e;; c++) {
            h = (h ^ (unsigned char)*c) * 1099511628211u;
            if (*c == '\0') break;
        }
    return h;
}

static void take_state(state *s)
{
    struct stat st;
    siginfo_t info;
    *s = (state){0};
    for (int fd = 0; fd < FDS; fd++)
        s->open[fd] = fstat(fd, &st) == 0;
    s->threads = entries("/proc/self/task");
    info.si_pid = 0;
    s->children = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
    for (int i = 1; i < SIGNALS; i++) {
        struct sigaction a;
        if (sigaction(i, NULL, &a) != 0) continue;
        s->handler[i] = (void *)(uintptr_t)a.sa_handler;
    }
    s->environment = environment();
    s->mask = umask(0);
    umask(s->mask);
    const char *locale = setlocale(LC_ALL, NULL);
    snprintf(s->locale, sizeof s->locale, "%s", locale ? locale : "");
    if (!getcwd(s->folder, sizeof s->folder)) s->folder[0] = '\0';
}

/* Whether two states differ. why: describes the first difference. */
static bool changed(const state *a, const state *b, char *why, size_t size)
{
    for (int fd = 0; fd < FDS; fd++) {
        if (a->open[fd] == b->open[fd]) continue;
        snprintf(why, size, "descriptor %d was %s", fd, a->open[fd] ? "closed" : "left open");
        return true;
    }
    for (int i = 1; i < SIGNALS; i++) {
        if (a->handler[i] == b->handler[i]) continue;
        const char *name = mf_signal_name(i);
        snprintf(why, size, "the handling of SIG%s was changed", name ? name : "?");
        return true;
    }
    if (b->threads > a->threads)
        snprintf(why, size, "%d threads were left behind", b->threads - a->threads);
    else if (b->children && !a->children)
        snprintf(why, size, "a child process was left behind");
    else if (a->environment != b->environment)
        snprintf(why, size, "an environment variable was changed");
    else if (strcmp(a->locale, b->locale) != 0)
        snprintf(why, size, "the locale was changed to %.60s", b->locale);
    else if (strcmp(a->folder, b->folder) != 0)
        snprintf(why, size, "the current folder was changed to %.100s", b->folder);
    else if (a->mask != b->mask)
        snprintf(why, size, "the umask was changed to %03o", (unsigned)b->mask);
    else
        return false;
    return true;
}

/* ---- use ---- */

static int use(const mf_harness_spec *spec, int steps)
{
    mf_harness *harness = NULL;
    int rc = mf_harness_new(spec, &harness);
    for (int i = 0; i < steps && rc == MF_OK; i++)
        rc = mf_harness_step(harness);
    mf_harness_free(harness);
    return rc;
}

static int come_and_go(const mf_harness_spec *spec)
{
    mf_harness_spec only = *spec;
    mf_harness *harness = NULL;
    only.only_init = true;
    const int rc = mf_harness_new(&only, &harness);
    mf_harness_free(harness);
    return rc;
}

static void no_work(void *arg, int64_t tile)
{
    (void)arg;
    (void)tile;
}

/* ---- stack ---- */

typedef struct deep {
    const mf_harness_spec *spec;
    int rc;
} deep;

static void *use_in_thread(void *arg)
{
    deep *d = arg;
    d->rc = use(d->spec, STEPS);
    return NULL;
}

/* Bytes of stack that the steps use; -1: they could not be measured. */
static long stack_of(const mf_harness_spec *spec)
{
    deep d = {.spec = spec, .rc = MF_ERUN};
    pthread_attr_t attr;
    pthread_t thread;
    long used = -1;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return -1;
    if (pthread_attr_init(&attr) == 0) {
        if (pthread_attr_setstack(&attr, stack, STACK) == 0 &&
            pthread_create(&thread, &attr, use_in_thread, &d) == 0) {
            pthread_join(thread, NULL);
            long clean = 0; /* counts pages that were not written: they read as zero */
            while (clean < STACK && stack[clean] == 0)
                clean++;
            if (d.rc == MF_OK) used = STACK - clean;
        }
        pthread_attr_destroy(&attr);
    }
    munmap(stack, STACK);
    return used;
}

/* ---- the check ---- */

/* A plugin's functions do not change the state of the process, and need at most 1 MiB more
 * stack than a stub. The check does not cover files that the plugin writes, the network, and
 * the changes that a constructor makes before the state is first recorded. */
mf_verdict mf_check_process(const mf_loaded *plugin, char detail[MF_CHECK_DETAIL])
{
    mf_harness_spec spec = mf_check_spec(plugin);
    char why[300];
    spec.training = spec.gradients = true;
    mf_harness_spec plain = spec;
    plain.plugin = mf_stub_router();
    plain.given = NULL;
    if (!plain.plugin || use(&plain, STEPS) != MF_OK) return mf_check_broke(detail, "the stub");
    state before, after;
    mf_parallel(1024, no_work, NULL); /* after this call all threads of the program exist */
    take_state(&before);
    int rc = use(&spec, MANY);
    for (int i = 0; i < INSTANCES && rc == MF_OK; i++)
        rc = come_and_go(&spec);
    take_state(&after);
    if (rc != MF_OK) return mf_check_broke(detail, "in a training step");
    if (changed(&before, &after, why, sizeof why))
        return mf_check_failed(detail, "%s: expected the process as it was", why);
    const long own = stack_of(&spec), stub = stack_of(&plain);
    if (own > stub + STACK_LIMIT)
        return mf_check_failed(detail, "a step uses %ld KiB of stack: expected at most %d",
                               own >> 10, (int)((stub + STACK_LIMIT) >> 10));
    snprintf(detail, MF_CHECK_DETAIL,
             "descriptors, threads, children, signals, environment, locale: as before");
    return MF_CHECK_PASS;
}
