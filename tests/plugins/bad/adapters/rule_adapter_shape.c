/* rule_adapter_shape: apply returns a value whose shape differs from that of in->y. */
#define APPLY                                                                                  \
    (void)w;                                                                                   \
    *ret_y = mf_slice(g, in->y, 1, 0, mf->shape(in->y).dim[1] / 2);
#include "bad_adapter.h"
