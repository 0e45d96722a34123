/* after_step ends the program with _exit, which runs no atexit handlers. */
#include <moefw/moefw.h>
#include <unistd.h>
#define AFTER after
static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)self;
    (void)ctx;
    if (step->step == 2) _exit(0);
    return MF_OK;
}
#include "../bad.h"
