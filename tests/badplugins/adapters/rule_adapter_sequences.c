/* rule_adapter_sequences: adds the mean over all tokens of the batch, and does not say so. */
#define APPLY *ret_y = mf_add(g, in->y, mf_mul(g, mf_mean(g, in->y, 1u, true), w));
#include "bad_adapter.h"
