/* model/soft.h: soft routing (Puigcerver et al. 2023): experts compute weighted sums of the
 * tokens of a sequence, and tokens get weighted sums of what they give.
 *
 *     slot[b,s] = sum_t dispatch[b t,s] x[b t]        y[b t] = sum_s combine[b t,s] out[b,s]
 *
 * B sequences of n tokens have S = E p slots each, p for each expert. Experts get the slots of
 * all sequences grouped by expert: R = E B p rows. All of it is f32.
 */
#ifndef MF_MODEL_SOFT_H
#define MF_MODEL_SOFT_H

#include "graph/graph.h"
#include <moefw/routing.h>

/* Sets prob, chosen, top_k and rows of a record whose dispatch is set: every expert for every
 * real token. Returns the gates [T E], the probabilities. */
mf_tensor *mf_soft_choose(mf_graph *g, mf_routing *r);
/* Sets x, offset and token of ein to the slots. x [T,d]. */
void mf_soft_fill(mf_graph *g, const mf_routing *r, mf_tensor *x, mf_expert_in *ein);
/* y [R,d], what the experts give for the slots -> [T,d]. */
mf_tensor *mf_soft_combine(mf_graph *g, const mf_routing *r, mf_tensor *y);

#endif
