/* plugin/crash.c: names the plugin that was running when the program died. The signal handler
 * calls async-signal-safe functions only and reads only what was set before the signal. */
#include "plugin/crash.h"

#include <moefw/status.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"

/* One per thread: a signal is handled in the thread that caused it. The address of such a small
 * variable is fixed when the library is loaded, so a handler reads it without a call. */
static _Thread_local const mf_site *volatile site_now
    __attribute__((tls_model("initial-exec")));
static volatile sig_atomic_t dying;
static int report_fd = -1;

const mf_site *mf_crash_site(const mf_site *site)
{
    const mf_site *before = site_now;
    site_now = site;
    return before;
}

/* The running op if it came with a plugin: its table is not core's. */
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

static void name_site(const mf_site *s, const char *how)
{
    if (report_fd >= 0) {
        say("died ");
        say(s->function);
        say("\n");
        return;
    }
    say("moefw: plugin ");
    say(s->plugin);
    say(" (");
    say(s->file);
    say(") ");
    say(how);
    say(" in ");
    say(s->function);
    say(" of ");
    say(s->path);
    say(": expected it to return; a checkpoint saved before is intact; "
        "try the plugin alone with `moefw plugin check FILE`\n");
}

static void name_op(const mf_node *node, const char *how)
{
    say("moefw: op ");
    say(node->op->name);
    say(" of the plugin at ");
    say(node->scope ? node->scope : "?");
    say(" ");
    say(how);
    say(": expected it to return; a checkpoint saved before is intact; "
        "try the plugin alone with `moefw plugin check FILE`\n");
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
    case SIGABRT:
        return "killed by SIGABRT";
    }
    return "killed by a signal";
}

static void on_signal(int number)
{
    const mf_site *s = site_now;
    if (s && !dying) {
        dying = 1;
        name_site(s, signal_name(number));
        /* the exit status of every plugin that breaks its contract */
        if (report_fd < 0) _exit(4);
    }
    const mf_node *node = report_fd < 0 && !dying ? plugin_op() : NULL;
    if (node) {
        dying = 1;
        name_op(node, signal_name(number));
        _exit(4);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void on_exit_call(void)
{
    const mf_site *s = site_now;
    if (!s || dying) return;
    dying = 1;
    name_site(s, "called exit()");
    if (report_fd < 0) _exit(4);
}

static void watch_signals(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    /* a stack of its own: the ordinary stack may have overflowed */
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
    atexit(on_exit_call);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    watch_signals(); /* in sanitizer builds, the sanitizer's own handlers report more */
#endif
}

void mf_crash_report_to(int fd)
{
    report_fd = fd;
    atexit(on_exit_call);
    watch_signals();
}
