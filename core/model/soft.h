/* model/soft.h: soft routing (Puigcerver et al. 2023). Each input of an expert is a weighted
 * sum of a sequence's tokens, and each token gets a weighted sum of the experts' outputs.
 *
 *     slot[b,s] = sum_t dispatch[b t,s] x[b t]        y[b t] = sum_s combine[b t,s] out[b,s]
 *
 * B sequences of n tokens have S = E p slots each, p for each expert. Experts get the slots of
 * all sequences grouped by expert: R = E B p rows. Both sums are computed in f32. */
#ifndef MF_MODEL_SOFT_H
#define MF_MODEL_SOFT_H

#include "graph/graph.h"
#include <moefw/routing.h>

/* Sets prob (unless the router set it), chosen, top_k and rows of a record that has dispatch.
 * Every token that is not padding is assigned to every expert. Returns the gates [T E], which
 * are the probabilities. */
mf_tensor *mf_soft_choose(mf_graph *g, mf_routing *r);
/* Computes the slots of x [T,d], and sets x, offset and token of ein. The token of a slot is
 * the first token of its sequence. */
void mf_soft_fill(mf_graph *g, const mf_routing *r, mf_tensor *x, mf_expert_in *ein);
/* y [R,d], the experts' outputs for the slots -> [T,d], summed with the weights of combine. */
mf_tensor *mf_soft_combine(mf_graph *g, const mf_routing *r, mf_tensor *y);

#endif
