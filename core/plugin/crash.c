/* plugin/crash.c: names the plugin that was running when the program died. The signal handler
 * calls only async-signal-safe functions and reads only values that were set before
 * the signal. */
#include "plugin/crash.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/coverage.h"
#include "base/error.h"
#include "base/mem.h"
#include "graph/graph.h"
#include "plugin/output.h"

/* The current site of each thread. A signal is handled in the thread that caused it. The
 * handler reads the site by pthread_getspecific, which allocates nothing. The first use of a
 * thread-local variable of a library that was opened by dlopen may allocate memory. */
static pthread_key_t site_key;
static bool has_site_key;
__attribute__((constructor)) static void make_site_key(void)
{
    has_site_key = pthread_key_create(&site_key, NULL) == 0;
}
static const mf_site *site_of_thread(void)
{
    return has_site_key ? pthread_getspecific(site_key) : NULL;
}
static volatile sig_atomic_t dying, watching, ended;
static volatile pid_t program; /* number of this process; children that plugins fork may end in
                                * any way */
static int report_fd = -1;

/* A copy of the newest site of any thread, for the thread that watches the time. That thread
 * must not read a site itself, because a site is on the stack of another thread. */
static struct {
    _Atomic(const char *) plugin, file, function, path;
} newest;
static _Atomic uint64_t moves; /* number of times that a site was set or restored */

const mf_site *mf_crash_site(const mf_site *site)
{
    const mf_site *before = site_of_thread();
    if (has_site_key) pthread_setspecific(site_key, site);
    atomic_fetch_add_explicit(&moves, 1, memory_order_relaxed);
    newest.plugin = site ? site->plugin : NULL;
    newest.file = site ? site->file : NULL;
    newest.function = site ? site->function : NULL;
    newest.path = site ? site->path : NULL;
    return before;
}

/* Tables of ops and the plugins to which they belong. Entries are added and never removed. */
typedef struct owned {
    struct owned *next;
    const mf_opdef *op;
    const char *plugin, *file;
} owned;
static _Atomic(owned *) owners;

static const owned *owner_of(const mf_opdef *op)
{
    const owned *o = atomic_load_explicit(&owners, memory_order_acquire);
    while (o && o->op != op)
        o = o->next;
    return o;
}

void mf_crash_own(const mf_opdef *op, const char *plugin, const char *file)
{
    if (owner_of(op)) return;
    owned *o = mf_alloc(1, sizeof *o);
    if (!o) {
        mf_error_clear(); /* without memory, only the plugin's name is missing in a message */
        return;
    }
    *o = (owned){atomic_load(&owners), op, plugin, file};
    while (!atomic_compare_exchange_weak(&owners, &o->next, o))
        continue;
}

/* Returns the running op if it belongs to a plugin, whose table is not core's. */
static const mf_node *plugin_op(void)
{
    const mf_node *node = atomic_load_explicit(&mf_graph_node_now, memory_order_relaxed);
    if (!node || !node->op || !node->op->name) return NULL;
    return mf_op_find(node->op->name) == node->op ? NULL : node;
}

/* Calls only what a signal handler may call. */
static void say(const char *text)
{
    ssize_t got = write(report_fd >= 0 ? report_fd : STDERR_FILENO, text, strlen(text));
    (void)got;
}

static void say_op(const mf_node *node)
{
    say("op ");
    say(node->op->name);
    say(" of the plugin at ");
    say(node->scope ? node->scope : "?");
}

/* In a child process: reports what was running. */
static void report_site(const mf_site *s, const mf_node *node)
{
    say("died ");
    say(s ? s->function : "an op");
    if (node) {
        say(": ");
        say_op(node);
    }
    say("\n");
}

#define EXPECTED                                                                               \
    ": expected it to return; a checkpoint saved before is intact; "                           \
    "try the plugin alone with `moefw plugin check FILE`\n"

static void name_site(const mf_site *s, const char *how)
{
    say("moefw: plugin ");
    if (s->plugin) {
        say(s->plugin);
        say(" (");
    }
    say(s->file);
    say(s->plugin ? ") " : " ");
    say(how);
    say(" in ");
    say(s->function);
    if (s->path) {
        say(" of ");
        say(s->path);
    }
    say(EXPECTED);
}

static void name_op(const mf_node *node, const char *how)
{
    const owned *o = owner_of(node->op);
    say("moefw: ");
    say_op(node);
    say(" ");
    say(how);
    if (o) {
        say(" (plugin ");
        say(o->plugin);
        say(", ");
        say(o->file);
        say(")");
    }
    say(EXPECTED);
}

/* Writes once which plugin is running; false if no plugin is running. If an op is running, it
 * names the op instead of the call around the op's graph. */
static bool name_one(const mf_site *s, const mf_node *node, const char *how)
{
    if (dying || (!s && !node)) return false;
    dying = 1;
    mf_output_rescue();
    if (report_fd >= 0)
        report_site(s, node);
    else if (node)
        name_op(node, how);
    else
        name_site(s, how);
    return true;
}

static bool name_running(const char *how)
{
    return name_one(site_of_thread(), plugin_op(), how);
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "killed by SIGSEGV";
    case SIGBUS:
        return "killed by SIGBUS";
    case SIGFPE:
        return "killed by SIGFPE";
    case SIGILL:
        return "killed by SIGILL";
    case SIGTERM:
        return "stopped";
    case SIGABRT:
        return "killed by SIGABRT";
    }
    return "killed by a signal";
}

void mf_crash_end(int status)
{
    for (;;)
        MF_LAST(syscall(SYS_exit_group, status));
}

static void on_signal(int number)
{
    /* 4 is the exit status for every plugin that breaks its contract */
    if (name_running(signal_name(number)) && report_fd < 0) mf_crash_end(4);
    signal(number, SIG_DFL);
    MF_LAST(raise(number));
}

/* Handles an end of the program that its main did not request, while no plugin is known to run.
 * A thread of a plugin may have caused it. If another thread is about to end the process, it
 * may finish its message. */
static _Noreturn void end_early(const char *call)
{
    const struct timespec while_it_writes = {1, 0};
    if (dying) {
        nanosleep(&while_it_writes, NULL);
        mf_crash_end(1);
    }
    dying = 1;
    say("moefw: a plugin or a library called ");
    say(call);
    say(" while the program was running: expected it to go on; a checkpoint saved before is "
        "intact\n");
    mf_crash_end(1);
}

static void on_exit_call(void)
{
    if (getpid() != program) return;
    if (name_running("called exit()") && report_fd < 0) mf_crash_end(4);
    if (watching && !ended) end_early("exit()");
}

void mf_crash_exit(int status)
{
    if (getpid() != program) mf_crash_end(status);
    if (name_running("called _exit()") && report_fd < 0) mf_crash_end(4);
    if (watching && !ended) end_early("_exit()");
    mf_crash_end(status);
}

void mf_crash_overdue(const mf_site *site, const char *how)
{
    name_one(site, NULL, how);
    mf_crash_end(4);
}

bool mf_crash_watching(void)
{
    return watching != 0;
}

void mf_crash_ended(void)
{
    ended = 1;
}

static void watch_signals(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    /* The handlers have their own stack, because the ordinary stack may have overflowed. */
    static char stack_memory[64 * 1024];
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        sigaction(fatal[i], &action, NULL);
}

void mf_crash_watch(void)
{
    watching = 1;
    program = getpid();
    atexit(on_exit_call);
    at_quick_exit(on_exit_call);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    watch_signals(); /* not called in sanitizer builds, because the sanitizer's own handlers
                      * report more */
#endif
}

void mf_crash_report_to(int fd)
{
    report_fd = fd;
    program = getpid();
    atexit(on_exit_call);
    at_quick_exit(on_exit_call);
    watch_signals();
    signal(SIGTERM, on_signal); /* the parent sends SIGTERM before it kills this process */
}

/* slices of the time limit: a process that was stopped loses only one slice */
enum { SLICES = 8 };
static _Atomic int64_t patience; /* time limit in seconds; 0: no limit */

static void *watch_time(void *arg)
{
    char how[64];
    uint64_t before = 0;
    int still = 0;
    (void)arg;
    for (;;) {
        const int64_t limit = patience, ns = (limit > 0 ? limit : 1) * (1000000000 / SLICES);
        const struct timespec slice = {ns / 1000000000, ns % 1000000000};
        nanosleep(&slice, NULL);
        const uint64_t now = moves + mf_graph_nodes_begun;
        const mf_node *node = plugin_op();
        const mf_site site = {newest.plugin, newest.file, newest.function, newest.path};
        still = limit > 0 && now == before && (site.file || node) ? still + 1 : 0;
        before = now;
        if (still <= SLICES) continue;
        snprintf(how, sizeof how, "did not return within %lld s (plugin.patience)",
                 (long long)limit);
        name_one(site.file ? &site : NULL, node, how);
        mf_crash_end(4);
    }
    return NULL;
}

int mf_crash_patience(int64_t seconds)
{
    static bool begun;
    pthread_t thread;
    sigset_t all, was;
    if (!watching) return MF_OK;
    patience = seconds > 0 ? seconds : 0;
    if (begun || seconds <= 0) return MF_OK;
    /* The new thread blocks all signals, so that the threads that compute handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    const int why = pthread_create(&thread, NULL, watch_time, NULL);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (why != 0)
        return mf_fail(MF_ERUN, "plugin.patience: cannot start a thread: %s", strerror(why));
    pthread_detach(thread);
    begun = true;
    return MF_OK;
}
