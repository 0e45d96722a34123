/* after_step ends the program with the status of success. */
#include <moefw/moefw.h>
#include <stdlib.h>
#define AFTER after
static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)self;
    (void)ctx;
    if (step->step == 2) exit(0);
    return MF_OK;
}
#include "../bad.h"
