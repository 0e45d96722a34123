/* rule_adapter_path: an adapter with its own path has a parameter that no gradient reaches. */
#define PATH   "some.place"
#define PARAMS two_params(ctx, dims)
#include <moefw/moefw.h>

static int two_params(mf_ctx *ctx, const mf_dims *dims)
{
    int rc = mf->param(ctx, "weight", mf_shape1(dims->dim), MF_NORMAL(0.3));
    return rc == MF_OK ? mf->param(ctx, "other", mf_shape1(dims->dim), MF_NORMAL(0.3)) : rc;
}

#define APPLY *ret_y = mf_mul(g, in->y, w);
#include "bad_adapter.h"
