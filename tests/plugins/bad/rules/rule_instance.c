/* Each instance leaks the memory that init allocates, because there is no function fini. */
#include <moefw/moefw.h>
#include <stdlib.h>
#define INIT keeping
static int keeping(void *, mf_ctx *, const void *, const mf_dims *);
#include "../bad.h"

static int keeping(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    *(void **)self = malloc(1000);
    return init(self, ctx, c, dims);
}
