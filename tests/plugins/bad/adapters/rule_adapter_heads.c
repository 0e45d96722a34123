/* rule_adapter_heads: scales heads by their index in y instead of their number. If head 0 is
 * inactive, head 1 gets the scale of head 0. */
#define POINTS MF_POINT_BIT(MF_AT_HEADS)
#define AT     "heads"
#define PARAMS mf->param(ctx, "weight", mf_shape2(dims->heads, 1), MF_NORMAL(0.3))
#define APPLY  *ret_y = mf_mul(g, in->y, mf_slice(g, w, 0, 0, in->n_active));
#include "bad_adapter.h"
