/* after_step leaks memory in each step. */
#include <moefw/moefw.h>
#include <stdlib.h>
#define AFTER after
static int after(void *, mf_ctx *, const mf_step *);
#include "../bad.h"

static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    (void)ctx;
    (void)step;
    *(void **)self = malloc(100);
    return MF_OK;
}
