/* ops/state.h: typed wrappers of ops on state: the key-value cache of decoding. */
#ifndef MF_OPS_STATE_H
#define MF_OPS_STATE_H

#include "ops/ops.h"

/* Writes x [B T,w] into cache [B S,w] at row b S + pos[b] and the rows after it, in place; the
 * result is the cache. pos [B] i32. A row outside of its sequence's part of the cache ends
 * the run. */
static inline mf_tensor *mf_cache_append(mf_graph *g, mf_tensor *cache, mf_tensor *x,
                                         mf_tensor *pos)
{
    return mf_op3(g, "cache_append", cache, x, pos, NULL);
}

#endif
