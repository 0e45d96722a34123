/* rule_adapter_sequences: apply adds the mean over all tokens of the batch, but init does not
 * declare this (MF_ADAPTER_SEQUENCE). */
#define APPLY *ret_y = mf_add(g, in->y, mf_mul(g, mf_mean(g, in->y, 1u, true), w));
#include "bad_adapter.h"
