/* after_step counts steps in memory that is not saved, and uses the count. */
#include <moefw/moefw.h>
#define AFTER after
static int after(void *, mf_ctx *, const mf_step *);
#include "../bad.h"

static int after(void *self, mf_ctx *ctx, const mf_step *step)
{
    int64_t n;
    float *w = mf->data(ctx, "weight", &n);
    (void)step;
    w[0] += 0.01f * (float)++*(int64_t *)self;
    return MF_OK;
}
