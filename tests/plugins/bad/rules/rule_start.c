/* Each call of init declares other initial values. */
#include <moefw/moefw.h>
#define INIT moody
static int moody(void *, mf_ctx *, const void *, const mf_dims *);
#include "../bad.h"

static int moody(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    static int made;
    (void)self;
    (void)c;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(0.02 * (1 + made++ % 7)));
}
