#include "train/signals.h"
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, save_signal;
static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};
static bool deaf; /* to SIGHUP, because the caller is: nohup */

static void on_stop(int number)
{
    if (stop_signal == number) { /* asked twice: do not wait for the step */
        signal(number, SIG_DFL);
        raise(number);
    }
    stop_signal = number;
}

static void on_save(int number)
{
    (void)number;
    save_signal = 1;
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

void mf_signals_catch(void)
{
    stop_signal = save_signal = 0;
    struct sigaction before;
    deaf = sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
    for (unsigned i = 0; i < sizeof stops / sizeof *stops; i++)
        if (!deaf || stops[i] != SIGHUP) handle(stops[i], on_stop);
    handle(SIGUSR1, on_save);
}

void mf_signals_release(void)
{
    for (unsigned i = 0; i < sizeof stops / sizeof *stops; i++)
        if (!deaf || stops[i] != SIGHUP) handle(stops[i], SIG_DFL);
    handle(SIGUSR1, SIG_DFL);
}

int mf_signals_stop(void)
{
    return stop_signal;
}

int mf_signals_take_save(void)
{
    const int was = save_signal;
    save_signal = 0;
    return was;
}
