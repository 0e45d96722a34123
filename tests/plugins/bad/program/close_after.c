/* after_step closes all descriptors except the standard ones, and opens other files with the
 * same numbers. */
#include <fcntl.h>
#include <moefw/moefw.h>
#include <unistd.h>
#define AFTER after
static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)self;
    (void)ctx;
    for (int fd = 3; step->step == 2 && fd < 64; fd++)
        close(fd);
    for (int n = 0; step->step == 2 && n < 8; n++)
        (void)!open("/dev/null", O_WRONLY);
    return MF_OK;
}
#include "../bad.h"
