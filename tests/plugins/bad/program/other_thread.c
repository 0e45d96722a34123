/* after_step starts a thread, or a process (OTHER_PROCESS), and waits for it. It runs the
 * code ACT, by default _exit(0). In a thread this ends the whole program with the status
 * of success. */
#include <moefw/moefw.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef ACT
#define ACT _exit(0)
#endif
#define AFTER after
static void *act(void *arg)
{
    ACT;
    return arg;
}
#ifdef OTHER_PROCESS
static void start(void)
{
    const pid_t child = fork();
    if (child == 0) act(NULL);
    waitpid(child, NULL, 0);
}
#else
static void start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, act, NULL) == 0) pthread_join(thread, NULL);
}
#endif
static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)self;
    (void)ctx;
    if (step->step == 2) start();
    return MF_OK;
}
#include "../bad.h"
