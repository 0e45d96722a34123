/* Signals of the command line. Handlers only set a flag and pass the request on to the run, so
 * they are safe at any instant. */
#include "cli/signals.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/coverage.h"

static volatile sig_atomic_t stop_signal;
static moefw_run *volatile listener; /* the run that receives the requests; NULL: none */
static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
enum { STOPS = sizeof stops / sizeof *stops };
/* Signals that the caller ignores stay ignored, for example under nohup, or in a script's
 * background process. */
static bool deaf[STOPS];

static void on_stop(int number)
{
    if (stop_signal == number) { /* the same signal again ends the process at once */
        signal(number, SIG_DFL);
        MF_LAST(raise(number));
    }
    stop_signal = number;
    if (listener) moefw_run_ask_stop(listener, number);
}

static void on_save(int number)
{
    (void)number;
    if (listener) moefw_run_ask_save(listener);
}

/* Requests the end of the run, as the time limit does. */
static void on_limit(int number)
{
    if (listener) moefw_run_ask_stop(listener, number);
}

static void handle(int number, void (*handler)(int))
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = handler;
    a.sa_flags = SA_RESTART;
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

void mf_signals_catch(moefw_run *run, bool usr1_stops)
{
    stop_signal = 0;
    listener = run;
    for (int i = 0; i < STOPS; i++) {
        struct sigaction before;
        deaf[i] = sigaction(stops[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!deaf[i]) handle(stops[i], on_stop);
    }
    handle(SIGUSR1, usr1_stops ? on_limit : on_save);
}

void mf_signals_release(void)
{
    for (int i = 0; i < STOPS; i++)
        if (!deaf[i]) handle(stops[i], SIG_DFL);
    handle(SIGUSR1, SIG_DFL);
    listener = NULL;
}

int mf_signals_stop(void)
{
    return stop_signal;
}

void mf_signals_end(void)
{
    fflush(stdout);
    signal(stop_signal, SIG_DFL);
    MF_LAST(raise(stop_signal));
}
